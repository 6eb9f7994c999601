// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>

#include "proto/channel.h"

namespace fettle {

std::string DataFolder(const std::string& flag) {
  const std::string folder = flag.empty() ? DefaultDataDir() : flag;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, error);
  std::string path = error ? folder : absolute.lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ProgramFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : self.parent_path().string();
}

absl::Status MakePrivateFolder(const std::string& path) {
  for (std::size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (part.empty() || ::mkdir(part.c_str(), 0700) == 0 || errno == EEXIST) continue;
    return absl::UnavailableError(
        fmt::format("make the folder {}: {}", path, std::strerror(errno)));
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return absl::UnavailableError(fmt::format("make the folder {}: not a folder", path));
  }
  return absl::OkStatus();
}

}  // namespace fettle
