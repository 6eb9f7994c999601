// SPDX-License-Identifier: Apache-2.0
#include "store/files.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

// Numbers temporary files within the process.
std::atomic<std::uint64_t> next_temporary{0};

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write " + path);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, "sync " + folder.string());
  }
  return absl::OkStatus();
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ErrnoStatus(int error, std::string_view what) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case ENOENT:
      code = absl::StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = absl::StatusCode::kPermissionDenied;
      break;
    default:
      break;
  }
  return absl::Status(code, fmt::format("{}: {}", what, std::strerror(error)));
}

absl::Status WriteFileDurably(const std::filesystem::path& path, std::string_view bytes) {
  const std::string temporary =
      fmt::format("{}.{}.{}.tmp", path.string(), getpid(), next_temporary.fetch_add(1));
  absl::Status status;
  {
    const Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0) return ErrnoStatus(errno, "create " + temporary);
    status = WriteAll(fd.get(), bytes, temporary);
    if (status.ok() && fsync(fd.get()) != 0) status = ErrnoStatus(errno, "sync " + temporary);
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "rename to " + path.string());
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(path.parent_path());
}

absl::Status CopyFile(const std::filesystem::path& from, const std::filesystem::path& to) {
  const Fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) return ErrnoStatus(errno, "read " + from.string());
  const Fd out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (out.get() < 0) return ErrnoStatus(errno, "create " + to.string());
  std::string piece(1 << 20, '\0');
  while (true) {
    const ssize_t got = read(in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read " + from.string());
    if (got == 0) return absl::OkStatus();
    FETTLE_RETURN_IF_ERROR(WriteAll(
        out.get(), std::string_view(piece).substr(0, static_cast<std::size_t>(got)), to.string()));
  }
}

absl::Status RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(from, error);
  {
    const Fd fd(open(from.c_str(), O_RDONLY | O_CLOEXEC));
    // A folder's files one by one would take a disk's turn each.
    if (fd.get() < 0 || (folder ? syncfs(fd.get()) : fsync(fd.get())) != 0) {
      return ErrnoStatus(errno, "sync " + from.string());
    }
  }
  if (rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "rename to " + to.string());
  return SyncFolder(to.parent_path());
}

absl::StatusOr<std::string> ReadWholeFile(const std::filesystem::path& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "read " + path.string());
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "read " + path.string());
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read " + path.string());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

absl::Status MakeFolder(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
  if (path.has_parent_path() && path.parent_path() != path) {
    FETTLE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "create folder " + path.string());
  }
  return absl::OkStatus();
}

}  // namespace fettle
