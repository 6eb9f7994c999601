// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_file.h"

#include <charconv>

#include <fmt/format.h>

namespace fettle {

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
