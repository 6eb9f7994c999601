// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text from outside: compilers, kernels, files. Wire and database take valid UTF-8 only.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace fettle {

// Length of the valid UTF-8 sequence at the start of `text`, which is not empty; 0: none (RFC 3629,
// table 3-7 of Unicode).
std::size_t Utf8SequenceLength(std::string_view text);
// Bytes before the first one that is no part of valid UTF-8 (RFC 3629); text.size() when all is.
std::size_t ValidUtf8Prefix(std::string_view text);
inline bool IsUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// The text with `replacement` for every byte that is no part of valid UTF-8.
std::string ValidUtf8(std::string_view text, std::string_view replacement = "?");

// At most `most` bytes of it, never ending within a character, and valid.
std::string CutText(std::string_view text, std::size_t most);

// How to print JSON whose strings may hold anything: json.dump(-1, ' ', false, kReplaceInvalid).
// Without it, invalid text throws.
inline constexpr auto kReplaceInvalid = nlohmann::json::error_handler_t::replace;

}  // namespace fettle
