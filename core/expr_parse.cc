// SPDX-License-Identifier: Apache-2.0
// Parser and printer of the expression language. Written by hand: the grammar is a page, messages
// name what was expected, and depth is bounded by construction.

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/expr_node.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using NodePtr = std::shared_ptr<const ExprNode>;

constexpr std::size_t kMaxText = 4096;
constexpr int kMaxDepth = 100;  // Of parentheses, calls, indices, prefixes and exponents.

// Binding strengths, weakest first.
enum Strength { kOrS = 1, kAndS, kCompareS, kSumS, kProductS, kPrefixS, kPowerS, kPostfixS };

struct Operator {
  std::string_view text;
  ExprOp op;
  int strength;
};
// Longer texts first, so that "<=" is not read as "<".
constexpr std::array<Operator, 14> kOperators = {{{"||", ExprOp::kOr, kOrS},
                                                  {"&&", ExprOp::kAnd, kAndS},
                                                  {"==", ExprOp::kEqual, kCompareS},
                                                  {"!=", ExprOp::kNotEqual, kCompareS},
                                                  {"<=", ExprOp::kLessEqual, kCompareS},
                                                  {">=", ExprOp::kGreaterEqual, kCompareS},
                                                  {"<", ExprOp::kLess, kCompareS},
                                                  {">", ExprOp::kGreater, kCompareS},
                                                  {"+", ExprOp::kAdd, kSumS},
                                                  {"-", ExprOp::kSubtract, kSumS},
                                                  {"*", ExprOp::kMultiply, kProductS},
                                                  {"/", ExprOp::kDivide, kProductS},
                                                  {"%", ExprOp::kRemainder, kProductS},
                                                  {"^", ExprOp::kPower, kPowerS}}};

constexpr std::array<ExprFunction, 11> kFunctions = {{{"min", 1, -1},
                                                      {"max", 1, -1},
                                                      {"ceil_div", 2, 2},
                                                      {"select", 3, 3},
                                                      {"bit_width", 1, 1},
                                                      {"sum", 1, 1},
                                                      {"dot", 2, 2},
                                                      {"count", 1, 1},
                                                      {"unique", 1, 1},
                                                      {"offsets", 1, 1},
                                                      {"sizeof", 1, 1}}};

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

NodePtr MakeNode(ExprOp op, std::vector<NodePtr> children, std::string name = {}) {
  auto node = std::make_shared<ExprNode>();
  node->op = op;
  node->name = std::move(name);
  node->children = std::move(children);
  return node;
}

// Recursive descent; after a mistake every function returns null and `message_` holds the first.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<NodePtr> Parse() {
    if (text_.size() > kMaxText) {
      return absl::InvalidArgumentError(
          fmt::format("expression is {} characters long; at most {}", text_.size(), kMaxText));
    }
    NodePtr node = Binary(kOrS);
    if (node != nullptr && !AtEnd()) node = Fail("expected an operator or the end");
    if (node == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("column {} of '{}': {}", column_, text_.substr(0, 200), message_));
    }
    return node;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Accept(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  NodePtr Fail(std::string message) {
    if (message_.empty()) {
      column_ = at_ + 1;
      const bool end = at_ >= text_.size();
      const bool plain = !end && text_[at_] > ' ' && text_[at_] < 127;
      message_ = std::move(message) + (end     ? std::string(", found the end")
                                       : plain ? fmt::format(", found '{}'", text_[at_])
                                               : std::string(", found an unexpected character"));
    }
    return nullptr;
  }
  NodePtr FailAt(std::size_t at, std::string message) {
    if (message_.empty()) {
      column_ = at + 1;
      message_ = std::move(message);
    }
    return nullptr;
  }

  // The operator that stands here, if it binds at `strength`.
  const Operator* AcceptOperator(int strength) {
    if (AtEnd()) return nullptr;
    for (const Operator& entry : kOperators) {
      if (text_.substr(at_, entry.text.size()) != entry.text) continue;
      if (entry.strength != strength) return nullptr;
      at_ += entry.text.size();
      return &entry;
    }
    return nullptr;
  }

  NodePtr Binary(int strength) {
    if (strength == kPrefixS) return Prefix();
    NodePtr left = Binary(strength + 1);
    for (int count = 0; left != nullptr; ++count) {
      const std::size_t start = at_;
      const Operator* found = AcceptOperator(strength);
      if (found == nullptr) break;
      if (strength == kCompareS && count > 0) {
        return FailAt(start + 1, "comparisons do not chain; join them with &&");
      }
      NodePtr right = Binary(strength + 1);
      if (right == nullptr) return nullptr;
      left = MakeNode(found->op, {std::move(left), std::move(right)});
    }
    return left;
  }

  NodePtr Prefix() {
    if (++depth_ > kMaxDepth) return Fail("nested too deeply");
    NodePtr node;
    if (Accept('-')) {
      node = Prefix();
      if (node != nullptr) node = MakeNode(ExprOp::kNegate, {std::move(node)});
    } else if (!AtEnd() && text_[at_] == '!' && text_.substr(at_, 2) != "!=") {
      ++at_;
      node = Prefix();
      if (node != nullptr) node = MakeNode(ExprOp::kNot, {std::move(node)});
    } else {
      node = Postfix();
      if (node != nullptr && AcceptOperator(kPowerS) != nullptr) {
        NodePtr exponent = Prefix();
        node = exponent == nullptr
                   ? nullptr
                   : MakeNode(ExprOp::kPower, {std::move(node), std::move(exponent)});
      }
    }
    --depth_;
    return node;
  }

  NodePtr Postfix() {
    NodePtr node = Primary();
    while (node != nullptr && Accept('[')) {
      NodePtr index = Binary(kOrS);
      if (index == nullptr) return nullptr;
      if (!Accept(']')) return Fail("expected ']'");
      node = MakeNode(ExprOp::kIndex, {std::move(node), std::move(index)});
    }
    return node;
  }

  NodePtr Primary() {
    if (AtEnd()) return Fail("expected a number, a name or '('");
    const char c = text_[at_];
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) return Name();
    if (!Accept('(')) return Fail("expected a number, a name or '('");
    NodePtr node = Binary(kOrS);
    if (node == nullptr) return nullptr;
    return Accept(')') ? node : Fail("expected ')'");
  }

  NodePtr Number() {
    const std::size_t start = at_;
    auto node = std::make_shared<ExprNode>();
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), node->number);
    if (error != std::errc()) return FailAt(start, "number does not fit 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && (text_[at_] == '.' || IsNameStart(text_[at_]))) {
      return FailAt(start, "expressions take whole decimal numbers only");
    }
    return node;
  }

  std::string Identifier() {
    std::string name;
    while (at_ < text_.size() && (IsNameStart(text_[at_]) || IsDigit(text_[at_]))) {
      name += text_[at_++];
    }
    return name;
  }

  NodePtr Name() {
    const std::size_t start = at_;
    std::string name = Identifier();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (name != "target")
        return FailAt(start, fmt::format("only 'target.' has members, not '{}'", name));
      if (at_ >= text_.size() || !IsNameStart(text_[at_])) return Fail("expected a name after '.'");
      return MakeNode(ExprOp::kName, {}, "target." + Identifier());
    }
    if (!Accept('(')) return MakeNode(ExprOp::kName, {}, std::move(name));
    const ExprFunction* function = FindExprFunction(name);
    if (function == nullptr) {
      return FailAt(start,
                    fmt::format("unknown function '{}'; there are min, max, ceil_div, select, "
                                "bit_width, sizeof, sum, dot, count, unique, offsets",
                                name));
    }
    if (name == "sizeof") return SizeOf();
    return Call(start, *function);
  }

  NodePtr SizeOf() {
    if (AtEnd() || !IsNameStart(text_[at_])) return Fail("expected a type name");
    std::string type = Identifier();
    if (!Accept(')')) return Fail("expected ')'");
    return MakeNode(ExprOp::kName, {}, fmt::format("sizeof({})", type));
  }

  NodePtr Call(std::size_t start, const ExprFunction& function) {
    std::vector<NodePtr> arguments;
    if (!Accept(')')) {
      do {
        NodePtr argument = Binary(kOrS);
        if (argument == nullptr) return nullptr;
        arguments.push_back(std::move(argument));
      } while (Accept(','));
      if (!Accept(')')) return Fail("expected ',' or ')'");
    }
    const int count = static_cast<int>(arguments.size());
    if (count < function.least || (function.most >= 0 && count > function.most)) {
      return FailAt(start, fmt::format("{} takes {}{} argument{}, not {}", function.name,
                                       function.most < 0 ? "at least " : "", function.least,
                                       function.least == 1 ? "" : "s", count));
    }
    return MakeNode(ExprOp::kCall, std::move(arguments), std::string(function.name));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t column_ = 1;
  std::string message_;
};

int StrengthOf(const ExprNode& node) {
  switch (node.op) {
    case ExprOp::kNumber:
    case ExprOp::kName:
    case ExprOp::kIndex:
    case ExprOp::kCall:
      return kPostfixS;
    case ExprOp::kNegate:
    case ExprOp::kNot:
      return kPrefixS;
    default:
      break;
  }
  for (const Operator& entry : kOperators) {
    if (entry.op == node.op) return entry.strength;
  }
  return kPostfixS;
}

void Print(const ExprNode& node, int least, std::string& out) {
  const int strength = StrengthOf(node);
  const bool parenthesized = strength < least;
  if (parenthesized) out += '(';
  switch (node.op) {
    case ExprOp::kNumber:
      out += std::to_string(node.number);
      break;
    case ExprOp::kName:
      out += node.name;
      break;
    case ExprOp::kIndex:
      Print(*node.children[0], kPostfixS, out);
      out += '[';
      Print(*node.children[1], kOrS, out);
      out += ']';
      break;
    case ExprOp::kCall:
      out += node.name;
      out += '(';
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        if (i > 0) out += ", ";
        Print(*node.children[i], kOrS, out);
      }
      out += ')';
      break;
    case ExprOp::kNegate:
    case ExprOp::kNot:
      out += node.op == ExprOp::kNegate ? '-' : '!';
      Print(*node.children[0], kPrefixS, out);
      break;
    case ExprOp::kPower:
      Print(*node.children[0], kPostfixS, out);
      out += '^';
      Print(*node.children[1], kPrefixS, out);
      break;
    default:
      Print(*node.children[0], strength == kCompareS ? strength + 1 : strength, out);
      out += ' ';
      out += ExprOpText(node.op);
      out += ' ';
      Print(*node.children[1], strength + 1, out);
  }
  if (parenthesized) out += ')';
}

}  // namespace

std::string_view ExprOpText(ExprOp op) {
  for (const Operator& entry : kOperators) {
    if (entry.op == op) return entry.text;
  }
  FETTLE_CHECK(false && "not a binary operator");
  return {};
}

const ExprFunction* FindExprFunction(std::string_view name) {
  for (const ExprFunction& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const ExprNode>> ParseExpr(std::string_view text) {
  return Parser(text).Parse();
}

std::string PrintExpr(const ExprNode& node) {
  std::string out;
  Print(node, kOrS, out);
  return out;
}

}  // namespace fettle
