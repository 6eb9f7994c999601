// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace fettle {

// Files and folders of the compile caches. Errors name the path: kResourceExhausted when the disk
// or a quota is full, kNotFound, kPermissionDenied, else kInternal.

absl::StatusOr<std::string> ReadFile(const std::string& path);
// Creates missing parent folders. Not atomic.
absl::Status WriteFile(const std::string& path, std::string_view bytes);
// Readers see the old file or the whole new one, whatever happens to the writer.
absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes);
absl::Status MakeFolders(const std::string& path);
// Moves folder `from` to `to`; when `to` exists already (another process was faster), removes
// `from`.
absl::Status PublishFolder(const std::string& from, const std::string& to);
bool Exists(const std::string& path);

// A folder of our own that is removed with everything in it.
class TemporaryFolder {
 public:
  // Inside `parent`, which is created. Empty: in $TMPDIR or /tmp.
  static absl::StatusOr<TemporaryFolder> Create(const std::string& parent);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace fettle
