// SPDX-License-Identifier: Apache-2.0
#include "worker/compiled_ahead.h"

namespace fettle {

void CompiledAhead::Fetch(const std::string& key) {
  const auto known = known_.find(key);
  if (known == known_.end() || cache_ == nullptr || cache_->Find(key).has_value()) return;
  const absl::StatusOr<std::string> bytes = blobs_.Get(known->second);
  if (!bytes.ok()) return;
  if (const auto result = UnpackCompileResult(key, *bytes)) cache_->Store(key, *result);
}

void CompiledAhead::Keep(const std::string& key, const CompileResult& result) {
  if (!result.repeatable) return;
  absl::StatusOr<std::string> digest = blobs_.Put(PackCompileResult(key, result));
  if (!digest.ok()) return;
  const std::lock_guard lock(mutex_);
  kept_[key] = *std::move(digest);
}

std::map<std::string, std::string> CompiledAhead::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace fettle
