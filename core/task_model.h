// SPDX-License-Identifier: Apache-2.0
#pragma once

// The declarations of a task as parsed (DESIGN.md 6, FORMAT.md).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bound.h"
#include "core/expr.h"
#include "core/task.h"

namespace fettle {

// `types: {T: [f16, bf16]}`.
struct TypeFamily {
  std::string name;
  std::vector<DType> dtypes;
  // Spellings that replace the defaults, by dtype and dialect.
  std::map<std::pair<DType, Dialect>, std::string> spellings;
};

// A dtype, or `$T`.
struct TypeRef {
  std::string family;  // Empty: `dtype`.
  DType dtype = DType::kF32;
};

struct DimDecl {
  std::string name;
  int line = 0, column = 0;
  bool is_list = false;
  Expr length;                           // is_list.
  std::optional<Expr> let;               // Derived; per entry `i` of a list.
  std::vector<std::int64_t> in;          // Nonempty: exactly these values.
  Expr min, max;                         // Else from min to max,
  Expr multiple_of = Expr::Constant(1);  // in multiples of this.
  std::optional<Expr> or_value;          // Tried half of the time.
  std::string file;                      // Lists with `fill: {file: ...}`: where entries come from.
};

// A fill's parameter: a number, or an expression over dims.
struct FillParameter {
  double number = 0;
  std::optional<Expr> expr;
};

struct FillDecl {
  Fill::Kind kind = Fill::Kind::kZero;
  FillParameter a, b;
  std::vector<Expr> runs;    // kIndexRuns.
  std::optional<Expr> list;  // kIndexOffsets, kList: an expression that gives a list.
  std::string file;
  std::vector<std::pair<std::int64_t, FillDecl>> rows;
};

struct ArgDecl {
  std::string name;
  int line = 0, column = 0;
  Role role = Role::kIn;
  TypeRef type;
  std::vector<Expr> shape;
  std::optional<std::vector<Expr>> strides;  // Elements.
  std::int64_t align = 0;
  FillDecl fill;
  std::optional<std::pair<Expr, Expr>> range;  // Index values, [lo, hi).
  Restore::Kind restore = Restore::Kind::kNone;
  std::string restore_index;         // kTouchedIndex.
  std::optional<Expr> restore_rows;  // kTouchedList.
  std::string optional_dim;          // Null where this dim is 0.
  // Scalars.
  enum class Value { kNumber, kExpr, kPerCase };
  Value value_kind = Value::kExpr;
  double number = 0;                                      // kNumber.
  Expr value;                                             // kExpr.
  std::vector<double> from;                               // kPerCase: drawn from these,
  std::optional<std::pair<double, double>> from_uniform;  // or from this range.
  // Pointers.
  Expr count;
  std::shared_ptr<const ArgDecl> each;
  bool in_struct = false;
};

// What a case gives for one dim.
struct CaseValue {
  enum class Kind { kNumber, kList, kUniform, kFile };
  Kind kind = Kind::kNumber;
  std::int64_t number = 0;         // kNumber; of a list dim: every entry.
  std::vector<std::int64_t> list;  // kList.
  std::int64_t lo = 0, hi = 0;     // kUniform, both included.
  std::string file;                // kFile.
};

struct CaseDecl {
  int line = 0, column = 0;
  std::map<std::string, DType> types;
  std::map<std::string, CaseValue> dims;
  std::map<std::string, FillDecl> fills;  // Overrides by argument.
  std::map<std::string, double> scalars;  // `per_case` values.
  double weight = 1;
  enum class On { kAll, kCpu, kGpu } on = On::kAll;  // Which targets run it.
};

struct ToleranceDecl {
  std::string output;
  BoundTolerance::Kind kind = BoundTolerance::Kind::kAuto;
  double rtol = 0, atol = 0;
  bool raw = false;  // `exact: bits`, spelled out.
  Expr reduce = Expr::Constant(1);
  DType acc = DType::kF32;
  std::optional<DType> inner;
};

struct WorkDecl {
  Expr bytes, flops;
  bool from_reference = false;
  bool estimate = false;
};

struct ContractDecl {
  bool deterministic = true;
  bool linear = false;
  bool nonfinite = false;                    // `propagate`.
  std::map<std::string, bool> nonfinite_of;  // Per argument.
  bool inline_assembly = false;              // Candidates may use it.
};

struct RivalDecl {
  std::string name, object;
  nlohmann::json launches;  // Canonical.
};

struct TaskModel {
  std::string name, summary, license;
  std::vector<TypeFamily> types;
  std::vector<DimDecl> dims;
  std::vector<Expr> valid;
  std::vector<std::string> specialize;
  std::vector<ArgDecl> args;
  KernelSpec baseline;
  Task::ReferenceSpec reference;
  std::vector<Task::CheckerSpec> checkers;
  std::vector<CaseDecl> timed, checked;
  int held_out = 3;
  std::vector<ToleranceDecl> tolerances;
  WorkDecl work;
  ContractDecl contract;
  std::vector<RivalDecl> rivals;

  const DimDecl* FindDim(std::string_view dim) const;
  const ArgDecl* FindArg(std::string_view arg) const;
  const TypeFamily* FindType(std::string_view family) const;
};

}  // namespace fettle
