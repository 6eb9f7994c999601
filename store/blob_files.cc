// SPDX-License-Identifier: Apache-2.0
#include "store/blob_files.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/statvfs.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "store/compress.h"
#include "store/files.h"

namespace fettle {
namespace {

constexpr std::size_t kCompressFrom = 512;  // Bytes; smaller blobs gain nothing.

absl::Status CheckDigest(std::string_view digest) {
  if (IsDigest(digest)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("digest: '{}' is not 64 lower-case hex digits", digest.substr(0, 80)));
}

}  // namespace

bool IsDigest(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::unique_ptr<BlobFiles>> BlobFiles::Open(BlobFilesOptions options) {
  FETTLE_RETURN_IF_ERROR(MakeFolder(options.root));
  return std::unique_ptr<BlobFiles>(new BlobFiles(std::move(options)));
}

std::filesystem::path BlobFiles::PathOf(std::string_view digest) const {
  return options_.root / std::string(digest.substr(0, 2)) / std::string(digest);
}

bool BlobFiles::Has(std::string_view digest) const {
  if (!IsDigest(digest)) return false;
  const std::filesystem::path path = PathOf(digest);
  std::error_code error;
  return std::filesystem::exists(path, error) ||
         std::filesystem::exists(path.string() + ".zst", error);
}

absl::StatusOr<std::string> BlobFiles::Get(std::string_view digest) {
  FETTLE_RETURN_IF_ERROR(CheckDigest(digest));
  const std::filesystem::path path = PathOf(digest);
  absl::StatusOr<std::string> bytes = ReadWholeFile(path);
  if (absl::IsNotFound(bytes.status())) {
    bytes = ReadWholeFile(path.string() + ".zst");
    if (absl::IsNotFound(bytes.status())) {
      return absl::NotFoundError(fmt::format("no blob {}", digest));
    }
    if (bytes.ok()) bytes = ZstdDecompress(*bytes, options_.max_blob_bytes);
  }
  FETTLE_RETURN_IF_ERROR(bytes.status());
  if (Sha256Hex(*bytes) != digest) {
    return absl::DataLossError(
        fmt::format("blob {}: its bytes no longer match the digest; restore {} from a backup",
                    digest, path.string()));
  }
  return bytes;
}

absl::StatusOr<std::string> BlobFiles::Put(std::string_view bytes) {
  if (bytes.size() > options_.max_blob_bytes) {
    return absl::InvalidArgumentError(fmt::format("blob of {} bytes: at most {} are stored",
                                                  bytes.size(), options_.max_blob_bytes));
  }
  std::string digest = Sha256Hex(bytes);
  // One that was damaged is replaced.
  if (Has(digest) && Get(digest).ok()) return digest;
  struct statvfs disk {};
  if (statvfs(options_.root.c_str(), &disk) == 0) {
    const std::uint64_t left = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (left < options_.reserve_bytes + bytes.size()) {
      return absl::ResourceExhaustedError(
          fmt::format("store a blob of {} bytes in {}: {} bytes are left on the disk and {} are "
                      "kept in reserve; free some space",
                      bytes.size(), options_.root.string(), left, options_.reserve_bytes));
    }
  }
  const std::filesystem::path path = PathOf(digest);
  FETTLE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  if (bytes.size() >= kCompressFrom) {
    const std::string packed = ZstdCompress(bytes);
    if (packed.size() < bytes.size() - bytes.size() / 16) {
      FETTLE_RETURN_IF_ERROR(WriteFileDurably(path.string() + ".zst", packed));
      return digest;
    }
  }
  FETTLE_RETURN_IF_ERROR(WriteFileDurably(path, bytes));
  return digest;
}

}  // namespace fettle
