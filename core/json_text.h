// SPDX-License-Identifier: Apache-2.0
#pragma once

// JSON from outside. The library parses without recursion, but copies, compares and prints with it:
// a document of 100,000 brackets would overflow the stack of whoever handles it next.

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace fettle {

// Of a whole document: a file, a worker's result, a message of a protocol.
inline constexpr int kMaxJsonNesting = 64;
// Of what becomes a part of a larger document: arguments of a tool, a kernel's block, a request.
inline constexpr int kMaxPartNesting = 32;

// Brackets that are open at once, outside texts. Of what is no JSON, any number.
int JsonNesting(std::string_view text);

// The document; discarded where the text is no JSON, or nests more than `most` deep.
nlohmann::json ParseJson(std::string_view text, int most = kMaxJsonNesting);

// A member; empty or 0 where there is none, it is of another type, or `object` is no object.
std::string TextAt(const nlohmann::json& object, const char* key);
double NumberAt(const nlohmann::json& object, const char* key);
std::int64_t IntegerAt(const nlohmann::json& object, const char* key);

}  // namespace fettle
