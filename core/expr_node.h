// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tree of an expression, shared by the parser, the evaluator and the C++ emitter.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

enum class ExprOp {
  kNumber,
  kName,
  kIndex,
  kCall,
  kNegate,
  kNot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
};

struct ExprNode {
  ExprOp op = ExprOp::kNumber;
  std::int64_t number = 0;  // kNumber.
  std::string name;         // kName: "rows", "target.wave", "sizeof(T)". kCall: the function.
  std::vector<std::shared_ptr<const ExprNode>> children;
};

// The functions of the language with how many arguments they take.
struct ExprFunction {
  std::string_view name;
  int least = 1, most = 1;  // most < 0: any number.
};
const ExprFunction* FindExprFunction(std::string_view name);

// kInvalidArgument: the message names the column and what was expected.
absl::StatusOr<std::shared_ptr<const ExprNode>> ParseExpr(std::string_view text);

// Text with the fewest parentheses that parses to the same tree.
std::string PrintExpr(const ExprNode& node);

// "+", "<=", ...; of operators only.
std::string_view ExprOpText(ExprOp op);

}  // namespace fettle
