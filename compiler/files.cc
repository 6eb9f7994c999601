// SPDX-License-Identifier: Apache-2.0
#include "compiler/files.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

absl::Status FileError(std::string_view what, const std::string& path, int error) {
  const std::string text = fmt::format("{} {}: {}", what, path, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(text);
  }
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("read", path, errno);
  std::string bytes;
  struct stat info = {};
  if (fstat(fd, &info) == 0 && info.st_size > 0) {
    bytes.reserve(static_cast<std::size_t>(info.st_size));
  }
  char chunk[65536];
  ssize_t n;
  while ((n = read(fd, chunk, sizeof chunk)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    bytes.append(chunk, static_cast<std::size_t>(n));
  }
  const int error = errno;
  close(fd);
  if (n < 0) return FileError("read", path, error);
  return bytes;
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  FETTLE_RETURN_IF_ERROR(MakeFolders(std::filesystem::path(path).parent_path()));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("write", path, errno);
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(fd);
      return FileError("write", path, error);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (close(fd) != 0) return FileError("write", path, errno);
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary = fmt::format("{}.tmp.{}.{}", path, getpid(), counter++);
  if (absl::Status written = WriteFile(temporary, bytes); !written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return FileError("write", path, error);
  }
  return absl::OkStatus();
}

absl::Status MakeFolders(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? FileError("make folder", path, error.value()) : absl::OkStatus();
}

absl::Status PublishFolder(const std::string& from, const std::string& to) {
  FETTLE_RETURN_IF_ERROR(MakeFolders(std::filesystem::path(to).parent_path()));
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  std::error_code ignored;
  std::filesystem::remove_all(from, ignored);
  if (error == EEXIST || error == ENOTEMPTY) return absl::OkStatus();
  return FileError("make folder", to, error);
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create(const std::string& parent) {
  std::string folder = parent;
  if (folder.empty()) {
    const char* variable = std::getenv("TMPDIR");
    folder = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  }
  FETTLE_RETURN_IF_ERROR(MakeFolders(folder));
  std::string path = folder + "/fettle-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return FileError("make folder", path, errno);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fettle
