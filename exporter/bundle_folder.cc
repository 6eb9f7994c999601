// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "exporter/bundle.h"
#include "exporter/manifest.h"
#include "store/files.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBundleBytes = 1ULL << 30;
constexpr int kMaxBundleFiles = 20000;

absl::Status DiskError(const std::string& attempt, const std::string& path, int error) {
  return ErrnoStatus(error, fmt::format("{} {}", attempt, path));
}

// What stands at `path` now.
enum class Occupant { kNothing, kEmptyFolder, kBundle };

absl::StatusOr<Occupant> FindOccupant(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return Occupant::kNothing;
  if (error) return DiskError("export to", path, error.value());
  if (fs::is_directory(status)) {
    if (fs::is_empty(path, error) && !error) return Occupant::kEmptyFolder;
    const fs::path folder(path);
    if (fs::exists(folder / "manifest.json", error) && fs::exists(folder / "SHA256SUMS", error)) {
      if (fs::exists(folder / kRerunFolder, error)) {
        return absl::AlreadyExistsError(fmt::format(
            "export to {}: the bundle there holds reruns, which would be lost; choose another "
            "folder, or move evidence/reruns away first",
            path));
      }
      return Occupant::kBundle;
    }
  }
  return absl::AlreadyExistsError(fmt::format(
      "export to {}: something that is not a bundle is there; choose another folder", path));
}

// A new folder beside `path` that is removed unless kept.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Beside(const fs::path& path) {
    std::string pattern = path.string() + ".XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return DiskError("export to", path.string(), errno);
    ::chmod(pattern.c_str(), 0755);
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(pattern));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  const fs::path path_;
};

absl::Status WriteFiles(const fs::path& folder, const BundleFiles& files) {
  for (const auto& [name, bytes] : files) {
    FETTLE_CHECK(IsPlainPath(name));
    const fs::path path = folder / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return DiskError("export to", path.string(), error.value());
    FETTLE_RETURN_IF_ERROR(WriteFileDurably(path, bytes));
    ::chmod(path.c_str(), 0644);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteBundle(const std::string& path, const BundleFiles& files) {
  std::error_code error;
  fs::path target = fs::absolute(path, error).lexically_normal();
  if (error) return DiskError("export to", path, error.value());
  if (!target.has_filename()) target = target.parent_path();
  FETTLE_ASSIGN_OR_RETURN(const Occupant occupant, FindOccupant(target.string()));
  fs::create_directories(target.parent_path(), error);
  if (error) return DiskError("export to", target.string(), error.value());
  FETTLE_ASSIGN_OR_RETURN(const auto temporary, TemporaryFolder::Beside(target));
  FETTLE_RETURN_IF_ERROR(WriteFiles(temporary->path(), files));
  // An exchange leaves the older bundle in the temporary folder, which goes away.
  const unsigned int how = occupant == Occupant::kBundle ? RENAME_EXCHANGE : 0U;
  if (::renameat2(AT_FDCWD, temporary->path().c_str(), AT_FDCWD, target.c_str(), how) != 0) {
    return DiskError("export to", target.string(), errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<BundleFiles> ReadBundle(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("read the bundle {}: no such folder; give one with a manifest.json", path));
  }
  // Whoever asks about a bundle is answered: this is none, or not a whole one.
  if (!fs::exists(fs::path(path) / "manifest.json", error)) {
    return absl::DataLossError(fmt::format(
        "read the bundle {}: there is no manifest.json in it, so it is no whole bundle", path));
  }
  BundleFiles files;
  std::uintmax_t total = 0;
  fs::recursive_directory_iterator entries(path, error);
  for (const fs::recursive_directory_iterator end; !error && entries != end;
       entries.increment(error)) {
    const fs::file_status status = entries->symlink_status(error);
    if (error) break;
    const std::string name = entries->path().lexically_relative(path).string();
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) {
      return absl::DataLossError(fmt::format(
          "read the bundle {}: {} is neither a file nor a folder, and no bundle holds such a "
          "thing; remove it",
          path, name));
    }
    total += entries->file_size(error);
    if (error) break;
    if (total > kMaxBundleBytes || files.size() >= kMaxBundleFiles) {
      return absl::ResourceExhaustedError(
          fmt::format("read the bundle {}: more than {} files or {} MiB", path, kMaxBundleFiles,
                      kMaxBundleBytes >> 20));
    }
    FETTLE_ASSIGN_OR_RETURN(files[name], ReadWholeFile(entries->path()));
  }
  if (error) return DiskError("read the bundle", path, error.value());
  return files;
}

absl::Status CanAddRerun(const std::string& path) {
  fs::path folder = fs::path(path) / kRerunFolder;
  std::error_code error;
  while (!fs::is_directory(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  if (::access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
  const int reason = errno;
  return DiskError("add reruns (work on a copy of the bundle that can be written) to", path,
                   reason);
}

absl::Status AddRerun(const std::string& path, const std::string& evidence_json) {
  const fs::path folder = fs::path(path) / kRerunFolder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return DiskError("write", folder.string(), error.value());
  // Several at once take turns: each must find the lines of those before it.
  const Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) return DiskError("lock", folder.string(), errno);
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return DiskError("lock", folder.string(), errno);
  }
  const std::string bytes = evidence_json + "\n";
  const std::string name = fmt::format("{}.json", Sha256Hex(bytes).substr(0, 16));
  FETTLE_RETURN_IF_ERROR(WriteFileDurably(folder / name, bytes));
  ::chmod((folder / name).c_str(), 0644);
  // Appended, never recomputed: an earlier rerun that was changed must stay visible.
  std::string sums;
  if (fs::exists(folder / "SHA256SUMS", error)) {
    FETTLE_ASSIGN_OR_RETURN(sums, ReadWholeFile(folder / "SHA256SUMS"));
  }
  const std::string line = Checksums({{name, bytes}});
  if (sums.find(line) == std::string::npos) sums += line;
  FETTLE_RETURN_IF_ERROR(WriteFileDurably(folder / "SHA256SUMS", sums));
  ::chmod((folder / "SHA256SUMS").c_str(), 0644);
  return absl::OkStatus();
}

}  // namespace fettle
