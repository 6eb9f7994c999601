// SPDX-License-Identifier: Apache-2.0
#include "cli/task_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status FileError(const char* attempt, const std::string& path, int error) {
  const std::string message = fmt::format("{} {}: {}", attempt, path, std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message + "; make it readable for this user");
    case ELOOP:
      return absl::InvalidArgumentError(message + "; remove the link that points to itself");
    default:
      return absl::UnavailableError(message);
  }
}

// One walk over a task folder.
class Walk {
 public:
  Walk(fs::path root, const TaskFolderLimits& limits) : root_(std::move(root)), limits_(limits) {}

  absl::Status Folder(const fs::path& folder, const std::string& prefix, int depth);
  TaskFiles TakeFiles() { return std::move(files_); }

 private:
  absl::Status Entry(const fs::path& path, const std::string& name, int depth);
  absl::Status File(const fs::path& path, const std::string& name);
  // The real path of an entry, refused when it lies outside the folder.
  absl::StatusOr<fs::path> Inside(const fs::path& path) const;

  const fs::path root_;  // Real path.
  const TaskFolderLimits limits_;
  std::set<fs::path> open_folders_;  // Real paths on the way down: a repeat is a loop.
  TaskFiles files_;
  std::int64_t total_ = 0;
};

absl::StatusOr<fs::path> Walk::Inside(const fs::path& path) const {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return FileError("read", path.string(), error.value());
  const auto [in_root, in_real] =
      std::mismatch(root_.begin(), root_.end(), real.begin(), real.end());
  if (in_root != root_.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "read {}: the link leaves the task folder (to {}); copy the file into the folder instead",
        path.string(), real.string()));
  }
  return real;
}

absl::Status Walk::Folder(const fs::path& folder, const std::string& prefix, int depth) {
  if (depth > limits_.depth) {
    return absl::InvalidArgumentError(
        fmt::format("read {}: folders nested deeper than {}; flatten "
                    "the task folder",
                    folder.string(), limits_.depth));
  }
  if (!open_folders_.insert(folder).second) {
    return absl::InvalidArgumentError(
        fmt::format("read {}: symbolic links form a loop; remove the link back to a folder above",
                    (root_ / prefix).string()));
  }
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return FileError("list", folder.string(), error.value());
  for (const fs::directory_iterator end; entries != end; entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.empty() || name[0] == '.') continue;
    FETTLE_RETURN_IF_ERROR(
        Entry(entries->path(), prefix.empty() ? name : prefix + "/" + name, depth));
  }
  if (error) return FileError("list", folder.string(), error.value());
  open_folders_.erase(folder);
  return absl::OkStatus();
}

absl::Status Walk::Entry(const fs::path& path, const std::string& name, int depth) {
  FETTLE_ASSIGN_OR_RETURN(const fs::path real, Inside(path));
  std::error_code error;
  const fs::file_status status = fs::status(real, error);
  if (error) return FileError("read", path.string(), error.value());
  if (fs::is_directory(status)) return Folder(real, name, depth + 1);
  if (fs::is_regular_file(status)) return File(real, name);
  return absl::InvalidArgumentError(fmt::format(
      "read {}: neither a file nor a folder; a task folder holds nothing else", path.string()));
}

absl::Status Walk::File(const fs::path& path, const std::string& name) {
  if (static_cast<int>(files_.size()) >= limits_.files) {
    return absl::ResourceExhaustedError(fmt::format(
        "read {}: more than {} files; is this a task folder?", root_.string(), limits_.files));
  }
  if (!IsUtf8(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "read {}: the file name '{}' is not UTF-8; rename it", root_.string(), ValidUtf8(name)));
  }
  FETTLE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path.string(), limits_.file_bytes));
  total_ += static_cast<std::int64_t>(bytes.size());
  if (total_ > limits_.total_bytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "read {}: more than {} MiB in all; shrink the stored arrays or draw them from a seed",
        root_.string(), limits_.total_bytes >> 20));
  }
  files_.emplace(name, std::move(bytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, std::int64_t limit_bytes) {
  // O_NONBLOCK: a pipe in place of the file must not hang us.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const absl::Status failed = FileError("read", path, errno);
    // Files are named by whoever typed the command.
    return absl::IsNotFound(failed) ? absl::InvalidArgumentError(failed.message()) : failed;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return FileError("read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("read {}: not a file", path));
  }
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got < 0) return FileError("read", path, errno);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(bytes.size()) > limit_bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("read {}: larger than {} MiB", path, limit_bytes >> 20));
    }
  }
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const FileDescriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) return FileError("write", path, errno);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      return FileError("write", path, error);
    }
    done += static_cast<std::size_t>(wrote);
  }
  if (::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return FileError("write", path, error);
  }
  return absl::OkStatus();
}

absl::StatusOr<TaskFiles> ReadTaskFolder(const std::string& path, const TaskFolderLimits& limits) {
  std::error_code error;
  const fs::path root = fs::canonical(path, error);
  if (error) {
    const absl::Status status = FileError("read task folder", path, error.value());
    if (!absl::IsNotFound(status)) return status;
    return absl::InvalidArgumentError(fmt::format(
        "read task folder {}: no such folder; give the folder that holds task.yaml", path));
  }
  if (!fs::is_directory(root, error)) {
    return absl::InvalidArgumentError(fmt::format(
        "read task folder {}: not a folder; give the folder that holds task.yaml", path));
  }
  Walk walk(root, limits);
  FETTLE_RETURN_IF_ERROR(walk.Folder(root, "", 0));
  TaskFiles files = walk.TakeFiles();
  if (!files.contains("task.yaml")) {
    return absl::FailedPreconditionError(
        fmt::format("read task folder {}: it holds no task.yaml; fettle init writes one for a "
                    "kernel file",
                    path));
  }
  return files;
}

}  // namespace fettle
