// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace fettle {

// Standard base64 (RFC 4648) with padding, no line breaks.
std::string Base64Encode(std::string_view bytes);
// kInvalidArgument: a character outside the alphabet, missing or misplaced padding.
absl::StatusOr<std::string> Base64Decode(std::string_view text);

}  // namespace fettle
