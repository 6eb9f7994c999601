// SPDX-License-Identifier: Apache-2.0
#pragma once

// Binding and reading columns in order, for statements that list them once.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "core/status_macros.h"
#include "store/database.h"

namespace fettle {

class RowBinder {
 public:
  explicit RowBinder(Statement& statement) : statement_(statement) {}
  RowBinder& Text(std::string_view value) {
    statement_.Bind(next_++, value);
    return *this;
  }
  RowBinder& TextOrNull(std::string_view value) {
    if (value.empty()) {
      statement_.BindNull(next_++);
    } else {
      statement_.Bind(next_++, value);
    }
    return *this;
  }
  template <std::integral T>
  RowBinder& Int(T value) {
    statement_.Bind(next_++, value);
    return *this;
  }
  RowBinder& Real(double value) {
    statement_.Bind(next_++, value);
    return *this;
  }
  RowBinder& Blob(std::string_view value) {
    statement_.BindBlob(next_++, value);
    return *this;
  }
  RowBinder& FlagOrNull(std::optional<bool> value) {
    if (value.has_value()) {
      statement_.Bind(next_++, *value ? 1 : 0);
    } else {
      statement_.BindNull(next_++);
    }
    return *this;
  }

 private:
  Statement& statement_;
  int next_ = 1;
};

class RowReader {
 public:
  explicit RowReader(const Statement& statement) : statement_(statement) {}
  std::string Text() { return statement_.Text(next_++); }
  std::int64_t Int() { return statement_.Int64(next_++); }
  std::uint64_t Seed() { return static_cast<std::uint64_t>(statement_.Int64(next_++)); }
  double Real() { return statement_.Double(next_++); }
  bool Flag() { return statement_.Int64(next_++) != 0; }

 private:
  const Statement& statement_;
  int next_ = 0;
};

// All rows of a bound statement.
template <typename Row, typename ReadRow>
absl::StatusOr<std::vector<Row>> ReadAll(Statement& statement, ReadRow&& read) {
  std::vector<Row> rows;
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, statement.Step());
    if (!more) return rows;
    rows.push_back(read(statement));
  }
}

// The first row, if any.
template <typename Row, typename ReadRow>
absl::StatusOr<std::optional<Row>> ReadFirst(Statement& statement, ReadRow&& read) {
  FETTLE_ASSIGN_OR_RETURN(const bool found, statement.Step());
  if (!found) return std::optional<Row>();
  return std::optional<Row>(read(statement));
}

}  // namespace fettle
