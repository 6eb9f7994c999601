// SPDX-License-Identifier: Apache-2.0
// Random expressions: parser against printer, and evaluator against the emitted C++ as compiled by
// the system's compiler.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

#include "core/expr.h"
#include "core/expr_node.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string Number(int depth) {
    if (depth <= 0) return Leaf();
    const auto sub = [&] { return Number(depth - 1 - Pick(2)); };
    switch (Pick(16)) {
      case 0:
        return Leaf();
      case 1:
        return "-" + Wrap(sub());
      case 2:
        return "!" + Wrap(sub());
      case 3:
        return Call("ceil_div", {sub(), sub()});
      case 4:
        return Call("bit_width", {sub()});
      case 5:
        return Call("select", {sub(), sub(), sub()});
      case 6:
        return Pick(2) != 0 ? Call("min", {sub(), sub(), sub()}) : Call("max", {sub(), sub()});
      case 7:
        return Call(kFolds[Pick(5)], {List(depth - 1)});
      case 8:
        return Call("dot", {List(depth - 1), List(depth - 1)});
      case 9:
        return List(depth - 1) + "[" + sub() + "]";
      case 10:
        return Wrap(sub()) + "^" + std::to_string(Pick(5));
      default:
        return Wrap(sub()) + Space() + kBinary[Pick(13)] + Space() + Wrap(sub());
    }
  }

  // A string of characters that occur in expressions.
  std::string Garbage() {
    static constexpr std::string_view kAlphabet = "abx019 +-*/%^!&|<>=()[],._minsumtarget\n\xff\0";
    std::string out;
    for (int i = Pick(40); i > 0; --i) {
      out += kAlphabet[static_cast<std::size_t>(Pick(static_cast<int>(kAlphabet.size())))];
    }
    return out;
  }

  int Pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

 private:
  std::string Leaf() {
    static const char* const kLeaves[] = {
        "0",           "1",        "2", "3", "7", "a", "b", "c", "d", "big", "9223372036854775807",
        "target.wave", "sizeof(T)"};
    return kLeaves[Pick(13)];
  }
  std::string List(int depth) {
    if (depth > 0 && Pick(4) == 0) return "offsets(" + List(depth - 1) + ")";
    if (depth > 0 && Pick(5) == 0)
      return "select(a, " + List(depth - 1) + ", " + List(depth - 1) + ")";
    static const char* const kLists[] = {"l", "m", "none"};
    return kLists[Pick(3)];
  }
  std::string Wrap(std::string text) { return Pick(2) != 0 ? "(" + text + ")" : text; }
  std::string Space() { return Pick(2) != 0 ? " " : ""; }
  static std::string Call(const std::string& name, const std::vector<std::string>& arguments) {
    std::string out = name + "(";
    for (std::size_t i = 0; i < arguments.size(); ++i) out += (i > 0 ? ", " : "") + arguments[i];
    return out + ")";
  }

  static constexpr const char* kFolds[] = {"sum", "count", "unique", "max", "min"};
  static constexpr const char* kBinary[] = {
      "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||"};
  std::mt19937_64 random_;
};

ExprScope MakeScope() {
  ExprScope scope;
  scope.Set("a", 0);
  scope.Set("b", -3);
  scope.Set("c", 5);
  scope.Set("d", 1000000007);
  scope.Set("big", std::numeric_limits<std::int64_t>::max() - 2);
  scope.Set("target.wave", 64);
  scope.Set("sizeof(T)", 2);
  scope.Set("l", std::vector<std::int64_t>{4, 0, 4, -1, 9});
  scope.Set("m", std::vector<std::int64_t>{1, 2, 3, 4, 5});
  scope.Set("none", std::vector<std::int64_t>{});
  return scope;
}

TEST(ExprFuzz, PrintedExpressionsParseBackToTheSameTree) {
  Generator generator(1);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = generator.Number(5);
    const auto first = Expr::Parse(text);
    if (!first.ok()) continue;  // Comparisons that chain.
    ++parsed;
    const std::string printed = first->canonical();
    const auto second = Expr::Parse(printed);
    ASSERT_TRUE(second.ok()) << text << " printed as " << printed << ": " << second.status();
    ASSERT_EQ(second->canonical(), printed) << text;
    const auto a = first->Evaluate(MakeScope()), b = second->Evaluate(MakeScope());
    ASSERT_EQ(a.ok(), b.ok()) << text << " printed as " << printed;
    if (a.ok()) {
      ASSERT_EQ(*a, *b) << text << " printed as " << printed;
    }
  }
  EXPECT_GT(parsed, 10000);
}

TEST(ExprFuzz, GarbageIsRefusedAndNeverCrashes) {
  Generator generator(2);
  int refused = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::string text = generator.Garbage();
    const auto expr = Expr::Parse(text);
    refused += !expr.ok();
    if (expr.ok()) (void)expr->Evaluate(MakeScope());
  }
  EXPECT_GT(refused, 50000);
}

// One program that evaluates `exprs` and prints "value ok" a line.
std::string Program(const std::vector<Expr>& exprs) {
  const std::map<std::string, std::string> rename = {{"a", "a"},
                                                     {"b", "b"},
                                                     {"c", "c"},
                                                     {"d", "d"},
                                                     {"big", "big"},
                                                     {"target.wave", "wave"},
                                                     {"sizeof(T)", "size"},
                                                     {"l", "l"},
                                                     {"m", "m"},
                                                     {"none", "none"}};
  std::string out(ExprCppPrelude());
  out += "#include <cstdio>\nusing fettle_expr::Num;\n";
  out +=
      "static const fettle_expr::Checked a = Num(0), b = Num(-3), c = Num(5), d = Num(1000000007),"
      " big = Num(INT64_MAX - 2), wave = Num(64), size = Num(2);\n";
  out += "static const fettle_expr::List l{{4, 0, 4, -1, 9}}, m{{1, 2, 3, 4, 5}}, none{};\n";
  out +=
      "static void Print(fettle_expr::Checked v) {\n"
      "  std::printf(\"%lld %d\\n\", v.ok ? static_cast<long long>(v.value) : 0LL, v.ok);\n}\n";
  out += "int main() {\n";
  for (const Expr& expr : exprs) out += "  Print(" + expr.EmitCpp(rename).value() + ");\n";
  return out + "}\n";
}

TEST(ExprFuzz, EmittedCppAgreesWithTheEvaluator) {
  Generator generator(3);
  std::vector<Expr> exprs;
  int failures = 0;
  while (exprs.size() < 500) {
    const auto expr = Expr::Parse(generator.Number(4));
    if (!expr.ok()) continue;
    const bool fails = !expr->Evaluate(MakeScope()).ok();
    if (fails && failures >= 150) continue;
    failures += fails;
    exprs.push_back(*expr);
  }
  ASSERT_GE(failures, 100);  // Overflow, division and index errors must agree too.
  const fs::path folder = fs::temp_directory_path() / fmt::format("fettle_expr_{}", ::getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "fuzz.cc") << Program(exprs);
  const std::string command = fmt::format(
      "g++ -std=c++17 -O0 -Wall -Werror -o {0}/fuzz {0}/fuzz.cc 2> {0}/log && {0}/fuzz > {0}/out",
      folder.string());
  ASSERT_EQ(std::system(command.c_str()), 0) << std::ifstream(folder / "log").rdbuf();
  std::ifstream out(folder / "out");
  for (const Expr& expr : exprs) {
    long long value = 0;
    int ok = 0;
    ASSERT_TRUE(out >> value >> ok);
    const auto expected = expr.Evaluate(MakeScope());
    EXPECT_EQ(ok != 0, expected.ok()) << expr.text() << " " << expected.status();
    if (expected.ok()) {
      EXPECT_EQ(value, *expected) << expr.text();
    }
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace
}  // namespace fettle
