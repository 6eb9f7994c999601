// SPDX-License-Identifier: Apache-2.0
#include "verifier/judgement_cache.h"

namespace fettle {

std::optional<std::optional<Judgement>> JudgementCache::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->second;
}

void JudgementCache::Put(const std::string& key, std::optional<Judgement> judgement) {
  if (judgement && !judgement->passed) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    found->second->second = std::move(judgement);
    return;
  }
  recent_.emplace_front(key, std::move(judgement));
  by_key_[key] = recent_.begin();
  if (recent_.size() > kMost) {
    by_key_.erase(recent_.back().first);
    recent_.pop_back();
  }
}

}  // namespace fettle
