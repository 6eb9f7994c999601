// SPDX-License-Identifier: Apache-2.0
#include "server/http/api_parts.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/limits.h"

namespace fettle {
namespace {

constexpr std::size_t kMaxWords = 3;

absl::Status BadCursor() {
  return errors::BadField("cursor", "must be a next_cursor of this call, or empty");
}

bool IsText(VariantSort sort) { return sort == VariantSort::kTask || sort == VariantSort::kTarget; }

template <typename Number>
bool ParseNumber(std::string_view text, Number& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest == text.data() + text.size();
}

}  // namespace

absl::StatusOr<std::int64_t> QueryNumber(const HttpRequest& request, const char* name,
                                         std::int64_t otherwise) {
  const std::string& text = request.Query(name);
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  if (!ParseNumber(text, value) || value < 0) {
    return errors::BadField(name, "must be a number, 0 or larger");
  }
  return value;
}

absl::StatusOr<int> QueryLimit(const HttpRequest& request, int otherwise, int most) {
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t limit, QueryNumber(request, "limit", otherwise));
  if (limit < 1) return errors::BadField("limit", "must be at least 1");
  return static_cast<int>(std::min<std::int64_t>(limit, most));
}

absl::StatusOr<std::vector<std::string>> QueryWords(const HttpRequest& request) {
  const std::string& text = request.Query("q");
  if (text.size() > limits::kMaxNameBytes) {
    return errors::TooLong("q", text.size(), limits::kMaxNameBytes);
  }
  if (!IsUtf8(text) || text.find('\0') != std::string::npos) {
    return errors::BadField("q", "must be UTF-8 text without NUL");
  }
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ') {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (words.size() > kMaxWords) {
    return errors::BadField("q", fmt::format("at most {} words", kMaxWords));
  }
  return words;
}

std::string FormatCursor(const SortCursor& cursor, VariantSort sort) {
  if (sort == VariantSort::kAccepted) return fmt::format("{}:{}", cursor.time_ns, cursor.id);
  if (!IsText(sort)) return fmt::format("{:.17g}:{}", cursor.number, cursor.id);
  return fmt::format("{}:{}", Base64Encode(cursor.text), cursor.id);
}

absl::StatusOr<SortCursor> ParseCursor(const std::string& text, VariantSort sort) {
  SortCursor cursor;
  if (text.empty()) return cursor;
  const auto colon = text.find(':');
  if (colon == std::string::npos || text.size() > 4 * limits::kMaxNameBytes) return BadCursor();
  cursor.id = text.substr(colon + 1);
  const std::string value = text.substr(0, colon);
  bool good = !cursor.id.empty();
  if (IsText(sort)) {
    absl::StatusOr<std::string> decoded = Base64Decode(value);
    good = good && decoded.ok() && IsUtf8(*decoded);
    if (good) cursor.text = *std::move(decoded);
  } else if (sort == VariantSort::kAccepted) {
    good = good && ParseNumber(value, cursor.time_ns);
  } else {
    good = good && ParseNumber(value, cursor.number) && std::isfinite(cursor.number);
  }
  if (!good || !IsUtf8(cursor.id)) return BadCursor();
  return cursor;
}

std::string CsvCell(std::string_view text) {
  const bool formula =
      !text.empty() && (text.front() == '=' || text.front() == '+' || text.front() == '-' ||
                        text.front() == '@' || text.front() == '\t' || text.front() == '\r');
  double number = 0;
  const bool is_number = !text.empty() && ParseNumber(text, number);
  std::string out = "\"";
  if (formula && !is_number) out += '\'';
  bool quote = formula && !is_number;
  for (const char c : text) {
    if (c == '"') out += '"';
    quote = quote || c == '"' || c == ',' || c == '\n' || c == '\r';
    out += c;
  }
  if (!quote) return std::string(text);
  return out + '"';
}

void AttachAs(HttpResponse& response, const std::string& file_name) {
  std::string plain;
  for (const char c : file_name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    plain += allowed ? c : '_';
  }
  response.headers.emplace_back("Content-Disposition",
                                fmt::format("attachment; filename=\"{}\"", plain));
}

}  // namespace fettle
