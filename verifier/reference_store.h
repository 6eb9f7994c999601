// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "verifier/expected.h"

namespace fettle {

// Results of references on disk, by key, up to a total size; the oldest are removed first. Losing
// an entry only costs time, so failures are silent. Safe for several processes and threads. Several
// processes may exceed the size by a sixteenth each before they look at the folder again.
class ReferenceStore {
 public:
  // `cache_dir` empty: stores nothing.
  ReferenceStore(const std::string& cache_dir, std::int64_t limit_bytes);
  std::optional<Expected> Get(const std::string& key) const;
  void Put(const std::string& key, const Expected& expected);

 private:
  std::string folder_;
  std::int64_t limit_bytes_;
  std::atomic<std::int64_t> until_trim_{0};  // Bytes to store before the folder is looked at.
};

}  // namespace fettle
