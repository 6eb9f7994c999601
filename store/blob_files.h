// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/blob.h"

namespace fettle {

struct BlobFilesOptions {
  std::filesystem::path root;
  std::uint64_t max_blob_bytes = 1ULL << 30;
  // Refuses to write when less than this would be left on the disk, so that the database can still
  // record what happened.
  std::uint64_t reserve_bytes = 64ULL << 20;
};

// Blobs as files root/ab/<digest>, zstd-compressed where that helps (suffix .zst). A file appears
// under its name only once its bytes are on the disk. Thread-safe, also across processes.
class BlobFiles final : public BlobStore {
 public:
  static absl::StatusOr<std::unique_ptr<BlobFiles>> Open(BlobFilesOptions options);

  // kInvalidArgument: not a digest. kNotFound, kDataLoss: core/blob.h.
  absl::StatusOr<std::string> Get(std::string_view digest) override;
  // kInvalidArgument: larger than max_blob_bytes. kResourceExhausted: no space left.
  absl::StatusOr<std::string> Put(std::string_view bytes) override;
  bool Has(std::string_view digest) const;

 private:
  explicit BlobFiles(BlobFilesOptions options) : options_(std::move(options)) {}
  std::filesystem::path PathOf(std::string_view digest) const;

  const BlobFilesOptions options_;
};

// Whether `text` has the form of a digest: 64 lower-case hex digits.
bool IsDigest(std::string_view text);

}  // namespace fettle
