// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "verifier/output_judge.h"

namespace fettle {

// Judgements by what was judged, so that equal bytes are judged once. Keys hold digests taken with
// a secret of the runner's process, which is why entries of one that has ended never match.
// Thread-safe.
class JudgementCache {
 public:
  // Nothing where nothing is known; a judgement that failed is never kept.
  std::optional<std::optional<Judgement>> Find(const std::string& key);
  // `judgement`: nothing where it could not be had (a baseline that fails on some inputs).
  void Put(const std::string& key, std::optional<Judgement> judgement);

 private:
  static constexpr std::size_t kMost = 4096;
  using Entry = std::pair<std::string, std::optional<Judgement>>;
  std::mutex mutex_;
  std::list<Entry> recent_;  // The latest first; guarded by mutex_, as is what follows.
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace fettle
