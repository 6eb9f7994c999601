// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "core/blob.h"
#include "core/digest.h"

namespace fettle {

// Blobs in memory. Thread-safe.
class MemoryBlobStore final : public BlobStore {
 public:
  absl::StatusOr<std::string> Get(std::string_view digest) override {
    const std::lock_guard lock(mutex_);
    const auto found = blobs_.find(std::string(digest));
    if (found == blobs_.end()) {
      return absl::NotFoundError(fmt::format("blob {}: not stored", std::string(digest)));
    }
    return found->second;
  }
  absl::StatusOr<std::string> Put(std::string_view bytes) override {
    std::string digest = Sha256Hex(bytes);
    const std::lock_guard lock(mutex_);
    blobs_.emplace(digest, bytes);
    return digest;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> blobs_;  // Guarded by mutex_.
};

}  // namespace fettle
