// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace fettle {

// Content-addressed bytes; a digest is Sha256Hex of the bytes. Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // kNotFound: no such blob. kDataLoss: its bytes no longer match the digest.
  virtual absl::StatusOr<std::string> Get(std::string_view digest) = 0;
  // Stores and returns the digest; storing again is a no-op. kResourceExhausted: disk full.
  virtual absl::StatusOr<std::string> Put(std::string_view bytes) = 0;
};

}  // namespace fettle
