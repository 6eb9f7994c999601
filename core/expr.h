// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

// The expression language of task files, plans and guards (DESIGN.md 6, FORMAT.md "Expressions"):
// int64 with every operation checked.

// A value: a number or a list of numbers.
using ExprValue = std::variant<std::int64_t, std::vector<std::int64_t>>;

// Names an expression can see: dims ("rows"), tunables ("BLOCK"), "target.wave", and element sizes
// under "sizeof(T)".
class ExprScope {
 public:
  void Set(std::string name, ExprValue value) { values_[std::move(name)] = std::move(value); }
  const ExprValue* Find(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, ExprValue, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, ExprValue, std::less<>> values_;
};

struct ExprNode;  // Defined in expr_node.h; immutable.

// A parsed expression. Cheap to copy; immutable and thread-safe.
class Expr {
 public:
  Expr() = default;  // The constant 0.
  static Expr Constant(std::int64_t value);
  // kInvalidArgument: the message names the column (from 1) and what was expected.
  static absl::StatusOr<Expr> Parse(std::string_view text);

  const std::string& text() const { return text_; }
  // The same expression in one fixed spelling; parses back to an equal tree.
  std::string canonical() const;
  // Free names, "target.x" and "sizeof(T)" spelled as in ExprScope.
  std::set<std::string> Names() const;
  bool is_constant() const { return Names().empty(); }

  // kInvalidArgument: unknown name, overflow, division by zero, index out of range, a list where a
  // number is needed; the message holds the expression and the values of its names.
  absl::StatusOr<std::int64_t> Evaluate(const ExprScope& scope) const;
  absl::StatusOr<ExprValue> EvaluateValue(const ExprScope& scope) const;
  // As Evaluate, but an inexact `/` is an error (shapes and grids; use ceil_div).
  absl::StatusOr<std::int64_t> EvaluateExact(const ExprScope& scope) const;

  // C++17 statements-free source of a checked evaluation for generated dispatch code: an expression
  // of type `fettle_expr::Checked` (see ExprCppPrelude) over variables named by `rename`, of that
  // type (numbers) or `fettle_expr::List`. kInvalidArgument: a name that `rename` lacks.
  absl::StatusOr<std::string> EmitCpp(const std::map<std::string, std::string>& rename) const;

 private:
  const ExprNode& root() const;

  std::string text_ = "0";
  std::shared_ptr<const ExprNode> root_;
};

// The self-contained C++17 prelude that emitted expressions need (namespace fettle_expr).
std::string_view ExprCppPrelude();

}  // namespace fettle
