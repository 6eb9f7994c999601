// SPDX-License-Identifier: Apache-2.0
#include "core/expr.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

ExprScope Scope() {
  ExprScope scope;
  scope.Set("rows", 12);
  scope.Set("zero", 0);
  scope.Set("big", std::numeric_limits<std::int64_t>::max());
  scope.Set("target.wave", 64);
  scope.Set("sizeof(T)", 2);
  scope.Set("lens", std::vector<std::int64_t>{3, 0, 3, 5});
  scope.Set("empty", std::vector<std::int64_t>{});
  return scope;
}

std::int64_t Eval(std::string_view text) {
  const auto expr = Expr::Parse(text);
  EXPECT_TRUE(expr.ok()) << expr.status();
  const auto value = expr->Evaluate(Scope());
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(-999);
}

std::string EvalError(std::string_view text) {
  const auto expr = Expr::Parse(text);
  EXPECT_TRUE(expr.ok()) << expr.status();
  const auto value = expr->Evaluate(Scope());
  EXPECT_FALSE(value.ok()) << text << " = " << *value;
  return std::string(value.status().message());
}

std::string ParseError(std::string_view text) {
  const auto expr = Expr::Parse(text);
  EXPECT_FALSE(expr.ok()) << text;
  return std::string(expr.status().message());
}

TEST(Expr, FollowsThePrecedenceRules) {
  EXPECT_EQ(Eval("1+2*3"), 7);
  EXPECT_EQ(Eval("-2^2"), -4);
  EXPECT_EQ(Eval("2^3^2"), 512);
  EXPECT_EQ(Eval("(2^3)^2"), 64);
  EXPECT_EQ(Eval("7 - 2 - 1"), 4);
  EXPECT_EQ(Eval("100/10/5"), 2);
  EXPECT_EQ(Eval("1 + 2 == 3 && 4 < 5 || 0"), 1);
  EXPECT_EQ(Eval("!0 + 1"), 2);
  EXPECT_EQ(Eval("2*-3"), -6);
  EXPECT_EQ(Eval("rows % 5 * sizeof(T)"), 4);
  EXPECT_EQ(Eval("target.wave"), 64);
}

TEST(Expr, DividesAsCppDoes) {
  EXPECT_EQ(Eval("-7/2"), -3);
  EXPECT_EQ(Eval("(-7)%2"), -1);
  EXPECT_EQ(Eval("ceil_div(7, 2)"), 4);
  EXPECT_EQ(Eval("ceil_div(-7, 2)"), -3);
  EXPECT_EQ(Eval("ceil_div(0, 2)"), 0);
}

TEST(Expr, HasItsFunctions) {
  EXPECT_EQ(Eval("select(zero, 1/zero, 5)"), 5);
  EXPECT_EQ(Eval("bit_width(0)"), 0);
  EXPECT_EQ(Eval("bit_width(255)"), 8);
  EXPECT_EQ(Eval("bit_width(big)"), 63);
  EXPECT_EQ(Eval("max(1, 9, 3)"), 9);
  EXPECT_EQ(Eval("min(1, 9, -3)"), -3);
  EXPECT_EQ(Eval("zero && 1/zero"), 0);
  EXPECT_EQ(Eval("1 || 1/zero"), 1);
}

TEST(Expr, HasLists) {
  EXPECT_EQ(Eval("sum(lens)"), 11);
  EXPECT_EQ(Eval("dot(lens, lens)"), 43);
  EXPECT_EQ(Eval("count(lens)"), 4);
  EXPECT_EQ(Eval("unique(lens)"), 3);
  EXPECT_EQ(Eval("max(lens)"), 5);
  EXPECT_EQ(Eval("min(lens)"), 0);
  EXPECT_EQ(Eval("sum(empty) + max(empty) + min(empty) + unique(empty)"), 0);
  EXPECT_EQ(Eval("count(offsets(empty))"), 1);
  EXPECT_EQ(Eval("offsets(lens)[4]"), 11);
  EXPECT_EQ(Eval("lens[rows - 9]"), 5);
  EXPECT_EQ(Eval("max(lens[0], lens[3])"), 5);
}

TEST(Expr, ReportsFailuresWithExpressionAndValues) {
  EXPECT_EQ(EvalError("rows / zero"),
            "evaluate 'rows / zero' with rows = 12, zero = 0: division by zero");
  EXPECT_THAT(EvalError("big + 1"), HasSubstr("big = 9223372036854775807: addition overflows"));
  EXPECT_THAT(EvalError("-big - 2"), HasSubstr("subtraction overflows"));
  EXPECT_THAT(EvalError("big * 2"), HasSubstr("multiplication overflows"));
  EXPECT_THAT(EvalError("(-big - 1) / -1"), HasSubstr("division overflows"));
  EXPECT_THAT(EvalError("-(-big - 1)"), HasSubstr("negation overflows"));
  EXPECT_THAT(EvalError("2^63"), HasSubstr("power overflows"));
  EXPECT_THAT(EvalError("2^-1"), HasSubstr("negative exponent"));
  EXPECT_THAT(EvalError("1 % zero"), HasSubstr("remainder by zero"));
  EXPECT_THAT(EvalError("ceil_div(1, zero)"), HasSubstr("ceil_div by zero"));
  EXPECT_THAT(EvalError("colz + 1"), HasSubstr("'colz' is not defined here"));
  EXPECT_THAT(EvalError("lens[4]"), HasSubstr("index 4 is outside 'lens', which has 4 entries"));
  EXPECT_THAT(EvalError("lens + 1"), HasSubstr("'lens' is a list where a number is needed"));
  EXPECT_THAT(EvalError("sum(rows)"), HasSubstr("sum needs one list, but 'rows' is a number"));
  EXPECT_THAT(EvalError("rows[0]"), HasSubstr("is a number and has no entries"));
  EXPECT_THAT(EvalError("dot(lens, empty)"), HasSubstr("4 and 0 entries"));
}

TEST(Expr, ExactDivisionPointsToCeilDiv) {
  const auto expr = Expr::Parse("rows / 5");
  EXPECT_EQ(*expr->Evaluate(Scope()), 2);
  EXPECT_THAT(std::string(expr->EvaluateExact(Scope()).status().message()),
              HasSubstr("12 / 5 is not exact; use ceil_div(rows, 5)"));
  EXPECT_EQ(*Expr::Parse("rows / 4")->EvaluateExact(Scope()), 3);
}

TEST(Expr, NamesTheColumnOfAMistake) {
  EXPECT_EQ(ParseError("1 + "),
            "column 5 of '1 + ': expected a number, a name or '(', found the end");
  EXPECT_THAT(ParseError("rows $ 2"), HasSubstr("column 6"));
  EXPECT_THAT(ParseError("(1 + 2"), HasSubstr("expected ')', found the end"));
  EXPECT_THAT(ParseError("foo(1)"), HasSubstr("unknown function 'foo'"));
  EXPECT_THAT(ParseError("ceil_div(1)"), HasSubstr("ceil_div takes 2 arguments, not 1"));
  EXPECT_THAT(ParseError("min()"), HasSubstr("takes at least 1 argument, not 0"));
  EXPECT_THAT(ParseError("1 < 2 < 3"), HasSubstr("do not chain"));
  EXPECT_THAT(ParseError("9223372036854775808"), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(ParseError("1.5"), HasSubstr("whole decimal numbers only"));
  EXPECT_THAT(ParseError("device.wave"), HasSubstr("only 'target.' has members"));
  EXPECT_THAT(ParseError(std::string(5000, '1')), HasSubstr("at most 4096"));
  EXPECT_THAT(ParseError(std::string(300, '(')), HasSubstr("nested too deeply"));
  EXPECT_THAT(ParseError(std::string(300, '-')), HasSubstr("nested too deeply"));
  EXPECT_THAT(ParseError(""), HasSubstr("found the end"));
}

TEST(Expr, KnowsItsNames) {
  const auto expr = Expr::Parse("sizeof(T) * rows + target.wave + lens[rows]");
  EXPECT_EQ(expr->Names(), (std::set<std::string>{"sizeof(T)", "rows", "target.wave", "lens"}));
  EXPECT_TRUE(Expr::Parse("3 * 4")->is_constant());
  EXPECT_TRUE(Expr().is_constant());
  EXPECT_EQ(*Expr().Evaluate({}), 0);
}

TEST(Expr, ConstantsKeepTheirValue) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{7}, std::int64_t{-7},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(*Expr::Constant(value).Evaluate({}), value);
    EXPECT_EQ(*Expr::Parse(Expr::Constant(value).text())->Evaluate({}), value);
  }
}

TEST(Expr, PrintsWithFewParentheses) {
  EXPECT_EQ(Expr::Parse("((a+b))*((c))")->canonical(), "(a + b) * c");
  EXPECT_EQ(Expr::Parse("a-(b-c)")->canonical(), "a - (b - c)");
  EXPECT_EQ(Expr::Parse("(-a)^2")->canonical(), "(-a)^2");
  EXPECT_EQ(Expr::Parse("-(a^2)")->canonical(), "-a^2");
}

TEST(Expr, EmitNeedsAVariableForEachName) {
  const auto expr = Expr::Parse("rows + cols");
  EXPECT_THAT(std::string(expr->EmitCpp({{"rows", "r"}}).status().message()),
              HasSubstr("'cols' has no variable"));
}

}  // namespace
}  // namespace fettle
