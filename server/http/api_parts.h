// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the calls of the API share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "server/http/message.h"
#include "store/views.h"

namespace fettle {

// A query parameter as a number of at least 0; missing: `otherwise`. kInvalidArgument names it.
absl::StatusOr<std::int64_t> QueryNumber(const HttpRequest& request, const char* name,
                                         std::int64_t otherwise);
// The page size asked for with `limit`, within 1 and `most`.
absl::StatusOr<int> QueryLimit(const HttpRequest& request, int otherwise, int most);
// The lower-case words of `q`. kInvalidArgument: more than three.
absl::StatusOr<std::vector<std::string>> QueryWords(const HttpRequest& request);

// A sorted list's cursor as text, and back. kInvalidArgument: not one of this call's.
std::string FormatCursor(const SortCursor& cursor, VariantSort sort);
absl::StatusOr<SortCursor> ParseCursor(const std::string& text, VariantSort sort);

// A cell of a CSV file (RFC 4180); text that a spreadsheet would run as a formula is quoted apart.
std::string CsvCell(std::string_view text);

// "attachment" under that name.
void AttachAs(HttpResponse& response, const std::string& file_name);

}  // namespace fettle
