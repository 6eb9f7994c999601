// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

// Aborts with file, line and the failed condition. For our own mistakes only: no input may reach
// it.
#define FETTLE_CHECK(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

// Returns the status from the enclosing function unless it is OK.
#define FETTLE_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                        \
    if (absl::Status fettle_status = (expression); !fettle_status.ok()) return fettle_status; \
  } while (false)

#define FETTLE_CONCAT_INNER(a, b) a##b
#define FETTLE_CONCAT(a, b) FETTLE_CONCAT_INNER(a, b)

// FETTLE_ASSIGN_OR_RETURN(Type name, expression): unwraps a StatusOr or returns its status.
#define FETTLE_ASSIGN_OR_RETURN(left, expression) \
  FETTLE_ASSIGN_OR_RETURN_INNER(FETTLE_CONCAT(fettle_or_, __LINE__), left, expression)
#define FETTLE_ASSIGN_OR_RETURN_INNER(temporary, left, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return temporary.status();                  \
  left = *std::move(temporary)

namespace fettle {

// The message as a std::string: absl::string_view neither formats nor converts on Debian 12.
inline std::string StatusText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace fettle
