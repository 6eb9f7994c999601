// SPDX-License-Identifier: Apache-2.0
#include "core/expr.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/expr_node.h"
#include "core/expr_ops.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using Numbers = std::vector<std::int64_t>;

// Evaluates with the first failure kept. Messages name the operation; the caller adds the
// expression and the values of its names.
class Evaluator {
 public:
  Evaluator(const ExprScope& scope, bool exact) : scope_(scope), exact_(exact) {}

  ExprValue Value(const ExprNode& node);
  std::int64_t Number(const ExprNode& node) {
    ExprValue value = Value(node);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    return Fail(fmt::format("'{}' is a list where a number is needed", PrintExpr(node)));
  }
  const std::string& error() const { return error_; }

 private:
  std::int64_t Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return 0;
  }
  std::int64_t Unwrap(ExprResult result) {
    return result.problem == nullptr ? result.value : Fail(result.problem);
  }
  std::int64_t Operate(const ExprNode& node);
  ExprValue Call(const ExprNode& node);
  ExprValue CallList(const ExprNode& node, std::vector<ExprValue> values);
  std::int64_t Fold(const ExprNode& node, const Numbers& numbers);

  const ExprScope& scope_;
  const bool exact_;
  std::string error_;
};

ExprValue Evaluator::Value(const ExprNode& node) {
  if (!error_.empty()) return 0;
  switch (node.op) {
    case ExprOp::kNumber:
      return node.number;
    case ExprOp::kName: {
      const ExprValue* value = scope_.Find(node.name);
      if (value != nullptr) return *value;
      return Fail(fmt::format("'{}' is not defined here", node.name));
    }
    case ExprOp::kIndex: {
      // A named list is looked into where it lies: copying it for each entry would take time with
      // the square of its length.
      const ExprNode& of = *node.children[0];
      const ExprValue* list = of.op == ExprOp::kName ? scope_.Find(of.name) : nullptr;
      ExprValue computed;
      if (list == nullptr) {
        computed = Value(of);
        list = &computed;
      }
      const std::int64_t index = Number(*node.children[1]);
      if (!error_.empty()) return 0;
      const auto* numbers = std::get_if<Numbers>(list);
      if (numbers == nullptr) {
        return Fail(
            fmt::format("'{}' is a number and has no entries", PrintExpr(*node.children[0])));
      }
      if (index < 0 || index >= static_cast<std::int64_t>(numbers->size())) {
        return Fail(fmt::format("index {} is outside '{}', which has {} entries", index,
                                PrintExpr(*node.children[0]), numbers->size()));
      }
      return (*numbers)[static_cast<std::size_t>(index)];
    }
    case ExprOp::kCall:
      return Call(node);
    default:
      return Operate(node);
  }
}

std::int64_t Evaluator::Operate(const ExprNode& node) {
  const std::int64_t a = Number(*node.children[0]);
  if (!error_.empty()) return 0;
  if (node.op == ExprOp::kNegate) return Unwrap(CheckedNegate(a));
  if (node.op == ExprOp::kNot) return a == 0;
  // The right side is left alone where the left one decides.
  if (node.op == ExprOp::kAnd && a == 0) return 0;
  if (node.op == ExprOp::kOr && a != 0) return 1;
  const std::int64_t b = Number(*node.children[1]);
  if (!error_.empty()) return 0;
  switch (node.op) {
    case ExprOp::kAdd:
      return Unwrap(CheckedAdd(a, b));
    case ExprOp::kSubtract:
      return Unwrap(CheckedSubtract(a, b));
    case ExprOp::kMultiply:
      return Unwrap(CheckedMultiply(a, b));
    case ExprOp::kDivide:
      if (exact_ && b != 0 && b != -1 && a % b != 0) {
        return Fail(fmt::format("{} / {} is not exact; use ceil_div({}, {})", a, b,
                                PrintExpr(*node.children[0]), PrintExpr(*node.children[1])));
      }
      return Unwrap(CheckedDivide(a, b));
    case ExprOp::kRemainder:
      return Unwrap(CheckedRemainder(a, b));
    case ExprOp::kPower:
      return Unwrap(CheckedPower(a, b));
    case ExprOp::kEqual:
      return a == b;
    case ExprOp::kNotEqual:
      return a != b;
    case ExprOp::kLess:
      return a < b;
    case ExprOp::kLessEqual:
      return a <= b;
    case ExprOp::kGreater:
      return a > b;
    case ExprOp::kGreaterEqual:
      return a >= b;
    case ExprOp::kAnd:
    case ExprOp::kOr:
      return b != 0;
    default:
      break;
  }
  FETTLE_CHECK(false && "not an operator");
  return 0;
}

ExprValue Evaluator::Call(const ExprNode& node) {
  if (node.name == "select") {  // Only the branch that is taken is evaluated.
    const std::int64_t condition = Number(*node.children[0]);
    if (!error_.empty()) return 0;
    return Value(*node.children[condition != 0 ? 1 : 2]);
  }
  std::vector<ExprValue> values;
  bool lists = false;
  for (const auto& child : node.children) {
    values.push_back(Value(*child));
    if (!error_.empty()) return 0;
    lists |= std::holds_alternative<Numbers>(values.back());
  }
  const bool takes_list = node.name == "sum" || node.name == "count" || node.name == "unique" ||
                          node.name == "dot" || node.name == "offsets";
  if (takes_list || lists) return CallList(node, std::move(values));
  Numbers numbers;
  for (const auto& value : values) numbers.push_back(std::get<std::int64_t>(value));
  if (node.name == "ceil_div") return Unwrap(CheckedCeilDiv(numbers[0], numbers[1]));
  if (node.name == "bit_width") return Unwrap(CheckedBitWidth(numbers[0]));
  return Fold(node, numbers);
}

std::int64_t Evaluator::Fold(const ExprNode& node, const Numbers& numbers) {
  if (node.name == "max") {
    return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
  }
  if (node.name == "min") {
    return numbers.empty() ? 0 : *std::min_element(numbers.begin(), numbers.end());
  }
  if (node.name == "count") return static_cast<std::int64_t>(numbers.size());
  if (node.name == "unique") {
    return static_cast<std::int64_t>(std::set<std::int64_t>(numbers.begin(), numbers.end()).size());
  }
  FETTLE_CHECK(node.name == "sum");
  std::int64_t total = 0;
  for (const std::int64_t number : numbers) total = Unwrap(CheckedAdd(total, number));
  return total;
}

ExprValue Evaluator::CallList(const ExprNode& node, std::vector<ExprValue> values) {
  const auto refuse = [&](std::size_t i) {
    return Fail(fmt::format(
        "{} needs {} list{}, but '{}' is {}", node.name, node.name == "dot" ? "two" : "one",
        node.name == "dot" ? "s" : "", PrintExpr(*node.children[i]),
        std::holds_alternative<Numbers>(values[i]) ? "a list beside others" : "a number"));
  };
  std::vector<const Numbers*> lists;
  for (std::size_t i = 0; i < values.size(); ++i) {
    lists.push_back(std::get_if<Numbers>(&values[i]));
    const bool fold = node.name == "max" || node.name == "min";
    if (lists.back() == nullptr || (fold && values.size() > 1)) {
      return refuse(i);
    }
  }
  if (node.name == "ceil_div" || node.name == "bit_width") {
    return Fail(fmt::format("{} needs numbers, but '{}' is a list", node.name,
                            PrintExpr(*node.children[0])));
  }
  if (node.name == "dot") {
    if (lists[0]->size() != lists[1]->size()) {
      return Fail(
          fmt::format("dot of lists with {} and {} entries", lists[0]->size(), lists[1]->size()));
    }
    std::int64_t total = 0;
    for (std::size_t i = 0; i < lists[0]->size(); ++i) {
      total = Unwrap(CheckedAdd(total, Unwrap(CheckedMultiply((*lists[0])[i], (*lists[1])[i]))));
    }
    return total;
  }
  if (node.name == "offsets") {
    Numbers out = {0};
    for (const std::int64_t number : *lists[0]) {
      out.push_back(Unwrap(CheckedAdd(out.back(), number)));
    }
    return out;
  }
  return Fold(node, *lists[0]);
}

std::string Describe(const ExprValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  const auto& numbers = std::get<Numbers>(value);
  if (numbers.size() > 8) {
    return fmt::format("[{}, ... {} entries]",
                       fmt::join(numbers.begin(), numbers.begin() + 8, ", "), numbers.size());
  }
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

absl::Status Explain(const Expr& expr, const ExprScope& scope, const std::string& problem) {
  std::string values;
  for (const auto& name : expr.Names()) {
    const ExprValue* value = scope.Find(name);
    if (value == nullptr) continue;
    if (values.size() > 400) {
      values += ", ...";
      break;
    }
    values += fmt::format("{}{} = {}", values.empty() ? " with " : ", ", name, Describe(*value));
  }
  return absl::InvalidArgumentError(
      fmt::format("evaluate '{}'{}: {}", expr.text().substr(0, 200), values, problem));
}

void CollectNames(const ExprNode& node, std::set<std::string>& names) {
  if (node.op == ExprOp::kName) names.insert(node.name);
  for (const auto& child : node.children) CollectNames(*child, names);
}

const ExprNode& Zero() {
  static const ExprNode* const zero = new ExprNode;
  return *zero;
}

}  // namespace

Expr Expr::Constant(std::int64_t value) {
  // Negative numbers have no literal of their own.
  const std::string text = value >= 0          ? std::to_string(value)
                           : value == kExprMin ? fmt::format("{} - 1", value + 1)
                                               : std::to_string(value);
  absl::StatusOr<Expr> expr = Parse(text);
  FETTLE_CHECK(expr.ok());
  return *std::move(expr);
}

absl::StatusOr<Expr> Expr::Parse(std::string_view text) {
  FETTLE_ASSIGN_OR_RETURN(std::shared_ptr<const ExprNode> root, ParseExpr(text));
  Expr expr;
  expr.text_ = std::string(text);
  expr.root_ = std::move(root);
  return expr;
}

const ExprNode& Expr::root() const { return root_ == nullptr ? Zero() : *root_; }

std::string Expr::canonical() const { return PrintExpr(root()); }

std::set<std::string> Expr::Names() const {
  std::set<std::string> names;
  CollectNames(root(), names);
  return names;
}

absl::StatusOr<std::int64_t> Expr::Evaluate(const ExprScope& scope) const {
  Evaluator evaluator(scope, /*exact=*/false);
  const std::int64_t value = evaluator.Number(root());
  if (!evaluator.error().empty()) return Explain(*this, scope, evaluator.error());
  return value;
}

absl::StatusOr<ExprValue> Expr::EvaluateValue(const ExprScope& scope) const {
  Evaluator evaluator(scope, /*exact=*/false);
  ExprValue value = evaluator.Value(root());
  if (!evaluator.error().empty()) return Explain(*this, scope, evaluator.error());
  return value;
}

absl::StatusOr<std::int64_t> Expr::EvaluateExact(const ExprScope& scope) const {
  Evaluator evaluator(scope, /*exact=*/true);
  const std::int64_t value = evaluator.Number(root());
  if (!evaluator.error().empty()) return Explain(*this, scope, evaluator.error());
  return value;
}

}  // namespace fettle
