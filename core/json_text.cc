// SPDX-License-Identifier: Apache-2.0
#include "core/json_text.h"

#include <algorithm>

namespace fettle {

using nlohmann::json;

namespace {

const json* MemberOf(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

int JsonNesting(std::string_view text) {
  int open = 0;
  int most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') most = std::max(most, ++open);
    if (c == ']' || c == '}') --open;
  }
  return most;
}

json ParseJson(std::string_view text, int most) {
  if (JsonNesting(text) > most) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string TextAt(const json& object, const char* key) {
  const json* value = MemberOf(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

double NumberAt(const json& object, const char* key) {
  const json* value = MemberOf(object, key);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

std::int64_t IntegerAt(const json& object, const char* key) {
  const json* value = MemberOf(object, key);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

}  // namespace fettle
