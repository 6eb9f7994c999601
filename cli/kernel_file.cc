// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_file.h"

#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/task_folder.h"
#include "core/json_text.h"
#include "core/status_macros.h"

namespace fettle {

absl::StatusOr<nlohmann::json> ReadKernelBlock(const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxKernelBytes));
  nlohmann::json block = ParseJson(text, kMaxPartNesting);
  if (!block.is_object()) {
    return absl::InvalidArgumentError(fmt::format("read {}: not a JSON object", path));
  }
  const std::string source = TextOf(block, "source_file");
  if (source.empty()) return block;
  const auto beside = std::filesystem::path(path).parent_path() / source;
  FETTLE_ASSIGN_OR_RETURN(block["source"], ReadFile(beside.string(), kMaxKernelBytes));
  if (!block.contains("source_name")) block["source_name"] = beside.filename().string();
  block.erase("source_file");
  return block;
}

absl::Status SetTunableValue(const std::string& text, nlohmann::json& values) {
  const std::size_t equals = text.find('=');
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (equals == 0 || begin == end || error != std::errc() || stop != end) {
    return absl::InvalidArgumentError(fmt::format("--set {}: write NAME=INTEGER", text));
  }
  values[text.substr(0, equals)] = value;
  return absl::OkStatus();
}

}  // namespace fettle
