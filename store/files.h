// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace fettle {

// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// kResourceExhausted for a full disk or quota, kNotFound for a missing file, kPermissionDenied,
// else kInternal. `what` as "write /path".
absl::Status ErrnoStatus(int error, std::string_view what);

// Writes `bytes` to a new file beside `path`, syncs it and renames it to `path`, so that `path`
// always holds a whole file.
absl::Status WriteFileDurably(const std::filesystem::path& path, std::string_view bytes);
// Copies a file to the new file `to`, mode 0600. std::filesystem's says EIO for a full disk.
absl::Status CopyFile(const std::filesystem::path& from, const std::filesystem::path& to);
// Syncs `from`, a file or a folder with all below it, and renames it to `to` beside it.
absl::Status RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);
absl::StatusOr<std::string> ReadWholeFile(const std::filesystem::path& path);
// As mkdir -p with mode 0700.
absl::Status MakeFolder(const std::filesystem::path& path);

}  // namespace fettle
