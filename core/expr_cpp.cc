// SPDX-License-Identifier: Apache-2.0
// C++ for generated dispatch code: the same checked arithmetic, as source.

#include <fmt/format.h>

#include "core/expr.h"
#include "core/expr_node.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// clang-format off
constexpr std::string_view kPrelude = R"cpp(// Checked 64-bit arithmetic of fettle's expressions.
// C++17, no dependencies.
#include <cstdint>
#include <vector>
namespace fettle_expr {

// A number, or the fact that an operation failed on the way to it.
struct Checked {
  std::int64_t value;
  bool ok;
};
// A list of numbers.
struct List {
  std::vector<std::int64_t> values;
  bool ok = true;
};

constexpr std::int64_t kMin = INT64_MIN;
inline Checked Num(std::int64_t value) { return {value, true}; }
inline Checked Fail() { return {0, false}; }

inline Checked Add(Checked a, Checked b) {
  std::int64_t v = 0;
  return a.ok && b.ok && !__builtin_add_overflow(a.value, b.value, &v) ? Num(v) : Fail();
}
inline Checked Sub(Checked a, Checked b) {
  std::int64_t v = 0;
  return a.ok && b.ok && !__builtin_sub_overflow(a.value, b.value, &v) ? Num(v) : Fail();
}
inline Checked Mul(Checked a, Checked b) {
  std::int64_t v = 0;
  return a.ok && b.ok && !__builtin_mul_overflow(a.value, b.value, &v) ? Num(v) : Fail();
}
inline Checked Neg(Checked a) { return a.ok && a.value != kMin ? Num(-a.value) : Fail(); }
inline Checked Div(Checked a, Checked b) {
  if (!a.ok || !b.ok || b.value == 0 || (a.value == kMin && b.value == -1)) return Fail();
  return Num(a.value / b.value);
}
inline Checked Rem(Checked a, Checked b) {
  if (!a.ok || !b.ok || b.value == 0) return Fail();
  return Num(b.value == -1 ? 0 : a.value % b.value);
}
inline Checked CeilDiv(Checked a, Checked b) {
  if (!a.ok || !b.ok || b.value <= 0) return Fail();
  return Num(a.value / b.value + (a.value % b.value > 0 ? 1 : 0));
}
inline Checked Pow(Checked a, Checked b) {
  if (!a.ok || !b.ok || b.value < 0) return Fail();
  if (a.value == 0 || a.value == 1) return Num(b.value == 0 ? 1 : a.value);
  if (a.value == -1) return Num(b.value % 2 == 0 ? 1 : -1);
  std::int64_t v = 1;
  for (std::int64_t i = 0; i < b.value; ++i) {
    if (__builtin_mul_overflow(v, a.value, &v)) return Fail();
  }
  return Num(v);
}
inline Checked BitWidth(Checked a) {
  if (!a.ok || a.value < 0) return Fail();
  std::int64_t width = 0;
  for (std::int64_t v = a.value; v > 0; v >>= 1) ++width;
  return Num(width);
}
inline Checked Not(Checked a) { return a.ok ? Num(a.value == 0) : Fail(); }
inline Checked Eq(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value == b.value) : Fail(); }
inline Checked Ne(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value != b.value) : Fail(); }
inline Checked Lt(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value < b.value) : Fail(); }
inline Checked Le(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value <= b.value) : Fail(); }
inline Checked Gt(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value > b.value) : Fail(); }
inline Checked Ge(Checked a, Checked b) { return a.ok && b.ok ? Num(a.value >= b.value) : Fail(); }
// A failure on the side that is not needed does not
// count.
inline Checked And(Checked a, Checked b) {
  if (!a.ok || a.value == 0) return a;
  return b.ok ? Num(b.value != 0) : Fail();
}
inline Checked Or(Checked a, Checked b) {
  if (!a.ok) return a;
  if (a.value != 0) return Num(1);
  return b.ok ? Num(b.value != 0) : Fail();
}
inline Checked Select(Checked c, Checked a, Checked b) { return !c.ok ? c : c.value != 0 ? a : b; }
inline List Select(Checked c, List a, List b) {
  if (!c.ok) return {{}, false};
  return c.value != 0 ? a : b;
}
inline Checked Min(Checked a) { return a; }
inline Checked Max(Checked a) { return a; }
inline Checked Min(Checked a, Checked b) {
  return a.ok && b.ok ? (b.value < a.value ? b : a) : Fail();
}
inline Checked Max(Checked a, Checked b) {
  return a.ok && b.ok ? (a.value < b.value ? b : a) : Fail();
}
inline Checked Min(const List& a) {
  if (!a.ok) return Fail();
  Checked out = Num(a.values.empty() ? 0 : a.values[0]);
  for (std::int64_t v : a.values) out = Min(out, Num(v));
  return out;
}
inline Checked Max(const List& a) {
  if (!a.ok) return Fail();
  Checked out = Num(a.values.empty() ? 0 : a.values[0]);
  for (std::int64_t v : a.values) out = Max(out, Num(v));
  return out;
}
inline Checked Sum(const List& a) {
  Checked out{0, a.ok};
  for (std::int64_t v : a.values) out = Add(out, Num(v));
  return out;
}
inline Checked Dot(const List& a, const List& b) {
  if (!a.ok || !b.ok || a.values.size() != b.values.size()) return Fail();
  Checked out = Num(0);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    out = Add(out, Mul(Num(a.values[i]), Num(b.values[i])));
  }
  return out;
}
inline Checked Count(const List& a) { return {static_cast<std::int64_t>(a.values.size()), a.ok}; }
inline Checked Unique(const List& a) {
  if (!a.ok) return Fail();
  std::int64_t distinct = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    bool seen = false;
    for (std::size_t k = 0; k < i && !seen; ++k) seen = a.values[k] == a.values[i];
    distinct += seen ? 0 : 1;
  }
  return Num(distinct);
}
inline List Offsets(const List& a) {
  List out{{0}, a.ok};
  for (std::int64_t v : a.values) {
    const Checked next = Add(Num(out.values.back()), Num(v));
    if (!next.ok) return {{}, false};
    out.values.push_back(next.value);
  }
  return out;
}
inline Checked At(const List& a, Checked i) {
  if (!a.ok || !i.ok || i.value < 0 || i.value >= static_cast<std::int64_t>(a.values.size())) {
    return Fail();
  }
  return Num(a.values[static_cast<std::size_t>(i.value)]);
}

}  // namespace fettle_expr
)cpp";
// clang-format on

std::string_view CppName(const ExprNode& node) {
  switch (node.op) {
    case ExprOp::kNegate:
      return "Neg";
    case ExprOp::kNot:
      return "Not";
    case ExprOp::kAdd:
      return "Add";
    case ExprOp::kSubtract:
      return "Sub";
    case ExprOp::kMultiply:
      return "Mul";
    case ExprOp::kDivide:
      return "Div";
    case ExprOp::kRemainder:
      return "Rem";
    case ExprOp::kPower:
      return "Pow";
    case ExprOp::kEqual:
      return "Eq";
    case ExprOp::kNotEqual:
      return "Ne";
    case ExprOp::kLess:
      return "Lt";
    case ExprOp::kLessEqual:
      return "Le";
    case ExprOp::kGreater:
      return "Gt";
    case ExprOp::kGreaterEqual:
      return "Ge";
    case ExprOp::kAnd:
      return "And";
    case ExprOp::kOr:
      return "Or";
    case ExprOp::kIndex:
      return "At";
    default:
      break;
  }
  static constexpr std::pair<std::string_view, std::string_view> kCalls[] = {
      {"min", "Min"},
      {"max", "Max"},
      {"ceil_div", "CeilDiv"},
      {"select", "Select"},
      {"bit_width", "BitWidth"},
      {"sum", "Sum"},
      {"dot", "Dot"},
      {"count", "Count"},
      {"unique", "Unique"},
      {"offsets", "Offsets"}};
  for (const auto& [name, cpp] : kCalls) {
    if (name == node.name) return cpp;
  }
  FETTLE_CHECK(false && "no C++ name");
  return {};
}

absl::Status Emit(const ExprNode& node, const std::map<std::string, std::string>& rename,
                  std::string& out) {
  constexpr std::string_view kSpace = "::fettle_expr::";
  if (node.op == ExprOp::kNumber) {
    out += fmt::format("{}Num(INT64_C({}))", kSpace, node.number);
    return absl::OkStatus();
  }
  if (node.op == ExprOp::kName) {
    const auto found = rename.find(node.name);
    if (found == rename.end()) {
      return absl::InvalidArgumentError(
          fmt::format("emit '{}' as C++: '{}' has no variable", PrintExpr(node), node.name));
    }
    out += found->second;
    return absl::OkStatus();
  }
  // min and max of many: nested pairs.
  const bool fold = node.op == ExprOp::kCall && (node.name == "min" || node.name == "max") &&
                    node.children.size() > 2;
  const std::size_t calls = fold ? node.children.size() - 1 : 1;
  for (std::size_t i = 0; i < calls; ++i) out += fmt::format("{}{}(", kSpace, CppName(node));
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) out += ", ";
    FETTLE_RETURN_IF_ERROR(Emit(*node.children[i], rename, out));
    if (fold && i > 0) out += ')';
  }
  if (!fold) out += ')';
  return absl::OkStatus();
}

}  // namespace

std::string_view ExprCppPrelude() { return kPrelude; }

absl::StatusOr<std::string> Expr::EmitCpp(const std::map<std::string, std::string>& rename) const {
  std::string out;
  FETTLE_RETURN_IF_ERROR(Emit(root(), rename, out));
  return out;
}

}  // namespace fettle
