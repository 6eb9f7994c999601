// SPDX-License-Identifier: Apache-2.0
// Evaluates a case: dims, tensors, scalars, tolerances, work.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/npy_list.h"
#include "core/random.h"
#include "core/task_impl.h"

namespace fettle {
namespace {

constexpr std::int64_t kMaxListEntries = std::int64_t{1} << 22;
constexpr std::int64_t kMaxMembers = 4096;

absl::Status Fail(const std::string& what, std::string_view message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", what, message));
}
absl::Status Under(const std::string& what, const absl::Status& status) {
  return Fail(what, std::string_view(status.message().data(), status.message().size()));
}

class CaseBinder {
 public:
  CaseBinder(const TaskModel& model, const TaskFiles& files, const CaseDecl& declared,
             BoundCase& out, Random random)
      : model_(model), files_(files), declared_(declared), out_(out), random_(random) {}

  absl::Status Bind();

 private:
  absl::Status BindDims();
  absl::Status BindDim(const DimDecl& dim);
  absl::StatusOr<std::vector<std::int64_t>> ListOf(const DimDecl& dim, const CaseValue& value,
                                                   std::int64_t length);
  absl::Status CheckValid();
  absl::Status BindArg(const ArgDecl& arg);
  absl::Status BindTensor(const ArgDecl& arg, const FillDecl& fill, std::int64_t member,
                          bool is_null);
  absl::Status BindPointers(const ArgDecl& arg);
  absl::Status BindScalar(const ArgDecl& arg);
  absl::Status BindStrides(const ArgDecl& arg, const std::string& path, BoundTensor& tensor);
  absl::Status BindRestore(const ArgDecl& arg, const std::string& path, BoundTensor& tensor);
  absl::StatusOr<Fill> BindFill(const ArgDecl& arg, const FillDecl& fill, const std::string& path);
  absl::Status BindTolerances();
  DType Resolve(const TypeRef& type) const;
  bool IsNull(const ArgDecl& arg) const;

  const TaskModel& model_;
  const TaskFiles& files_;
  const CaseDecl& declared_;
  BoundCase& out_;
  Random random_;
  ExprScope scope_;
  std::int64_t bytes_ = 0;
};

DType CaseBinder::Resolve(const TypeRef& type) const {
  if (type.family.empty()) return type.dtype;
  const auto found = declared_.types.find(type.family);
  return found == declared_.types.end() ? DType::kF32 : found->second;
}

absl::Status CaseBinder::Bind() {
  for (const TypeFamily& family : model_.types) {
    const DType dtype = Resolve({family.name, DType::kF32});
    out_.types.emplace_back(family.name, dtype);
    scope_.Set(fmt::format("sizeof({})", family.name), SizeOf(dtype));
  }
  FETTLE_RETURN_IF_ERROR(BindDims());
  FETTLE_RETURN_IF_ERROR(CheckValid());
  for (const ArgDecl& arg : model_.args) FETTLE_RETURN_IF_ERROR(BindArg(arg));
  FETTLE_RETURN_IF_ERROR(BindTolerances());
  return BindWork(model_, {}, out_);
}

absl::Status CaseBinder::BindDims() {
  for (const DimDecl& dim : model_.dims) {
    const absl::Status status = BindDim(dim);
    if (!status.ok()) return Under("dims." + dim.name, status);
    const BoundDim& bound = out_.dims.back();
    if (bound.is_list) {
      scope_.Set(dim.name, bound.values);
    } else {
      scope_.Set(dim.name, bound.values.front());
    }
  }
  return absl::OkStatus();
}

absl::Status CaseBinder::BindDim(const DimDecl& dim) {
  BoundDim bound;
  bound.name = dim.name;
  bound.is_list = dim.is_list;
  std::int64_t length = 1;
  if (dim.is_list) {
    FETTLE_ASSIGN_OR_RETURN(length, dim.length.EvaluateExact(scope_));
    if (length < 0 || length > kMaxListEntries) {
      return absl::InvalidArgumentError(
          fmt::format("a list of {} entries; at most {}", length, kMaxListEntries));
    }
  }
  if (dim.let && !dim.is_list) {
    FETTLE_ASSIGN_OR_RETURN(ExprValue value, dim.let->EvaluateValue(scope_));
    bound.is_list = std::holds_alternative<std::vector<std::int64_t>>(value);
    bound.values = bound.is_list ? std::get<std::vector<std::int64_t>>(value)
                                 : std::vector<std::int64_t>{std::get<std::int64_t>(value)};
  } else if (dim.let) {
    ExprScope inner = scope_;
    for (std::int64_t i = 0; i < length; ++i) {
      inner.Set("i", i);
      FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, dim.let->Evaluate(inner));
      bound.values.push_back(value);
    }
  } else {
    const CaseValue& value = declared_.dims.at(dim.name);
    if (!dim.is_list) {
      bound.values = {value.number};
    } else {
      FETTLE_ASSIGN_OR_RETURN(bound.values, ListOf(dim, value, length));
    }
    FETTLE_ASSIGN_OR_RETURN(const DimDomain domain, DomainOf(dim, scope_));
    for (const std::int64_t entry : bound.values) {
      if (!domain.Contains(entry)) {
        return absl::InvalidArgumentError(
            fmt::format("{} is outside its domain, {}", entry, domain.Describe()));
      }
    }
  }
  out_.dims.push_back(std::move(bound));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::int64_t>> CaseBinder::ListOf(const DimDecl&, const CaseValue& value,
                                                             std::int64_t length) {
  std::vector<std::int64_t> out;
  switch (value.kind) {
    case CaseValue::Kind::kNumber:
      out.assign(static_cast<std::size_t>(length), value.number);
      break;
    case CaseValue::Kind::kList:
      out = value.list;
      break;
    case CaseValue::Kind::kUniform: {
      const auto span = static_cast<std::uint64_t>(value.hi - value.lo) + 1;
      for (std::int64_t i = 0; i < length; ++i) {
        out.push_back(value.lo + static_cast<std::int64_t>(random_.Below(span)));
      }
      break;
    }
    case CaseValue::Kind::kFile: {
      const auto file = files_.find(value.file);
      if (file == files_.end()) {
        return absl::InvalidArgumentError(fmt::format("there is no file '{}'", value.file));
      }
      FETTLE_ASSIGN_OR_RETURN(out, ReadNpyList(file->second));
      break;
    }
  }
  if (static_cast<std::int64_t>(out.size()) != length) {
    return absl::InvalidArgumentError(
        fmt::format("the case gives {} entries, the list has {}", out.size(), length));
  }
  return out;
}

absl::Status CaseBinder::CheckValid() {
  for (const Expr& condition : model_.valid) {
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t holds, condition.Evaluate(scope_));
    if (holds == 0) return Fail("valid", fmt::format("'{}' does not hold", condition.text()));
  }
  return absl::OkStatus();
}

bool CaseBinder::IsNull(const ArgDecl& arg) const {
  if (arg.role == Role::kNone) return true;
  if (arg.optional_dim.empty()) return false;
  const ExprValue* value = scope_.Find(arg.optional_dim);
  const auto* number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return number != nullptr && *number == 0;
}

absl::Status CaseBinder::BindArg(const ArgDecl& arg) {
  if (arg.role == Role::kScalar) return BindScalar(arg);
  if (arg.role == Role::kPointers) return BindPointers(arg);
  const auto override_fill = declared_.fills.find(arg.name);
  return BindTensor(arg, override_fill == declared_.fills.end() ? arg.fill : override_fill->second,
                    0, IsNull(arg));
}

absl::Status CaseBinder::BindPointers(const ArgDecl& arg) {
  BoundPointers pointers;
  pointers.name = arg.name;
  pointers.in_struct = arg.in_struct;
  pointers.first = static_cast<std::int64_t>(out_.tensors.size());
  auto count = arg.count.EvaluateExact(scope_);
  if (!count.ok()) return Under("args." + arg.name + ".count", count.status());
  if (*count < 0 || *count > kMaxMembers) {
    return Fail("args." + arg.name + ".count",
                fmt::format("{} pointers; give between 0 and {}", *count, kMaxMembers));
  }
  pointers.count = *count;
  const auto override_fill = declared_.fills.find(arg.name);
  const FillDecl& fill =
      override_fill == declared_.fills.end() ? arg.each->fill : override_fill->second;
  const bool is_null = IsNull(arg);
  for (std::int64_t g = 0; g < *count; ++g) {
    scope_.Set("g", g);
    FETTLE_RETURN_IF_ERROR(BindTensor(*arg.each, fill, g, is_null));
  }
  out_.pointers.push_back(std::move(pointers));
  return absl::OkStatus();
}

absl::Status CaseBinder::BindTensor(const ArgDecl& arg, const FillDecl& fill, std::int64_t member,
                                    bool is_null) {
  const std::string path = "args." + arg.name;
  BoundTensor tensor;
  tensor.name = arg.name;
  tensor.member = member;
  tensor.role = arg.role;
  tensor.dtype = Resolve(arg.type);
  tensor.align_bytes = arg.align;
  tensor.is_null = is_null;
  if (is_null) {
    tensor.shape = {0};
    tensor.strides = {1};
    out_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }
  for (const Expr& extent : arg.shape) {
    auto value = extent.EvaluateExact(scope_);
    if (!value.ok()) return Under(path + ".shape", value.status());
    if (*value < 0) {
      return Fail(path + ".shape",
                  fmt::format("'{}' is {}; an extent cannot be negative", extent.text(), *value));
    }
    tensor.shape.push_back(*value);
  }
  FETTLE_RETURN_IF_ERROR(BindStrides(arg, path, tensor));
  FETTLE_RETURN_IF_ERROR(BindRestore(arg, path, tensor));
  if (arg.role != Role::kOut) {
    FETTLE_ASSIGN_OR_RETURN(tensor.fill, BindFill(arg, fill, path + ".fill"));
  }
  const auto own = model_.contract.nonfinite_of.find(arg.name);
  tensor.nonfinite =
      IsFloat(tensor.dtype) && arg.role != Role::kOut &&
      (own == model_.contract.nonfinite_of.end() ? model_.contract.nonfinite : own->second);
  out_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status CaseBinder::BindStrides(const ArgDecl& arg, const std::string& path,
                                     BoundTensor& tensor) {
  const std::size_t rank = tensor.shape.size();
  constexpr std::int64_t kMost = std::int64_t{1} << 44;  // 16 TiB: more than any device has.
  tensor.strides.assign(rank, 1);
  std::int64_t elements = 1;
  for (std::size_t i = rank; i-- > 0;) {
    tensor.strides[i] = elements;
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(1, tensor.shape[i]), &elements) ||
        elements > kMost) {
      return Fail(
          path + ".shape",
          fmt::format("[{}] has more elements than any device can hold; bound the dims with "
                      "'valid'",
                      fmt::join(tensor.shape, ", ")));
    }
  }
  if (arg.strides) {
    std::vector<std::pair<std::int64_t, std::int64_t>> order;  // Stride, extent.
    const bool writes = arg.role == Role::kOut || arg.role == Role::kInOut;
    for (std::size_t i = 0; i < rank; ++i) {
      auto stride = (*arg.strides)[i].EvaluateExact(scope_);
      if (!stride.ok()) return Under(path + ".strides", stride.status());
      const bool wide = tensor.shape[i] > 1;
      if (*stride < 0 || *stride > kMost || (*stride == 0 && writes && wide)) {
        return Fail(path + ".strides",
                    fmt::format("stride {} of axis {} is not allowed here: 0 only "
                                "for inputs and extents of at most 1",
                                *stride, i));
      }
      tensor.strides[i] = *stride;
      if (wide) order.emplace_back(*stride, tensor.shape[i]);
    }
    std::sort(order.begin(), order.end());
    std::int64_t reach = 0;  // Of the axes with smaller strides.
    for (const auto& [stride, extent] : order) {
      if (writes && stride <= reach) {
        return Fail(path + ".strides", "elements of an output overlap");
      }
      std::int64_t step = 0;
      if (__builtin_mul_overflow(stride, extent - 1, &step) ||
          __builtin_add_overflow(reach, step, &reach) || reach > kMost) {
        return Fail(path + ".strides", "the strides reach further than any device's memory");
      }
    }
  }
  std::int64_t bytes = StorageBytes(tensor.dtype, tensor.extent());
  if (__builtin_add_overflow(bytes_, bytes, &bytes_) || bytes_ > kMost) {
    return Fail(path + ".shape",
                "the case needs more memory than any device has; bound the dims "
                "with 'valid'");
  }
  return absl::OkStatus();
}

absl::Status CaseBinder::BindRestore(const ArgDecl& arg, const std::string& path,
                                     BoundTensor& tensor) {
  tensor.restore.kind = arg.restore;
  tensor.restore.index = arg.restore_index;
  if (!arg.restore_rows) return absl::OkStatus();
  auto rows = arg.restore_rows->EvaluateValue(scope_);
  if (!rows.ok()) return Under(path + ".touched", rows.status());
  const auto* list = std::get_if<std::vector<std::int64_t>>(&*rows);
  if (list == nullptr) return Fail(path + ".touched", "needs a list of rows, not a number");
  const std::int64_t count = tensor.shape.empty() ? 1 : tensor.shape[0];
  for (const std::int64_t row : *list) {
    if (row < 0 || row >= count) {
      return Fail(path + ".touched", fmt::format("row {} is outside the {} rows", row, count));
    }
  }
  tensor.restore.rows = *list;
  return absl::OkStatus();
}

absl::StatusOr<Fill> CaseBinder::BindFill(const ArgDecl& arg, const FillDecl& fill,
                                          const std::string& path) {
  Fill out;
  out.kind = fill.kind;
  out.file = fill.file;
  const auto parameter = [&](const FillParameter& from, double& to) -> absl::Status {
    to = from.number;
    if (!from.expr) return absl::OkStatus();
    auto value = from.expr->Evaluate(scope_);
    if (!value.ok()) return Under(path, value.status());
    to = static_cast<double>(*value);
    return absl::OkStatus();
  };
  FETTLE_RETURN_IF_ERROR(parameter(fill.a, out.a));
  FETTLE_RETURN_IF_ERROR(parameter(fill.b, out.b));
  if (out.kind == Fill::Kind::kUniform && out.a > out.b) {
    return Fail(path, fmt::format("uniform from {} to {}: the bounds are the wrong way round",
                                  out.a, out.b));
  }
  if (arg.range) {
    auto lo = arg.range->first.Evaluate(scope_), hi = arg.range->second.Evaluate(scope_);
    if (!lo.ok()) return Under("args." + arg.name + ".range", lo.status());
    if (!hi.ok()) return Under("args." + arg.name + ".range", hi.status());
    out.lo = *lo;
    out.hi = *hi;
  }
  if (out.kind == Fill::Kind::kIndexRuns) {
    for (const Expr& run : fill.runs) {
      auto value = run.Evaluate(scope_);
      if (!value.ok()) return Under(path, value.status());
      out.list.push_back(*value);
    }
  } else if (fill.list) {
    auto value = fill.list->EvaluateValue(scope_);
    if (!value.ok()) return Under(path, value.status());
    const auto* list = std::get_if<std::vector<std::int64_t>>(&*value);
    if (list == nullptr) {
      return Fail(path, fmt::format("'{}' is a number where a list is needed", fill.list->text()));
    }
    out.list = *list;
  }
  for (const auto& [row, inner] : fill.rows) {
    FETTLE_ASSIGN_OR_RETURN(Fill bound, BindFill(arg, inner, path));
    out.rows.emplace_back(row, std::move(bound));
  }
  return out;
}

absl::Status CaseBinder::BindScalar(const ArgDecl& arg) {
  BoundScalar scalar;
  scalar.name = arg.name;
  scalar.dtype = Resolve(arg.type);
  double real = arg.number;
  std::int64_t integer = 0;
  bool is_real = arg.value_kind != ArgDecl::Value::kExpr;
  if (arg.value_kind == ArgDecl::Value::kPerCase) {
    const auto own = declared_.scalars.find(arg.name);
    if (own != declared_.scalars.end()) {
      real = own->second;
    } else if (arg.from_uniform) {
      real = arg.from_uniform->first +
             random_.Uniform() * (arg.from_uniform->second - arg.from_uniform->first);
    } else {
      real = arg.from[random_.Below(arg.from.size())];
    }
  } else if (!is_real) {
    auto value = arg.value.Evaluate(scope_);
    if (!value.ok()) return Under("args." + arg.name + ".value", value.status());
    integer = *value;
  }
  if (IsFloat(scalar.dtype)) {
    scalar.real = RoundTo(scalar.dtype, is_real ? real : static_cast<double>(integer));
  } else {
    if (is_real) {
      if (real != std::nearbyint(real) || std::fabs(real) > 9e15) {
        return Fail("args." + arg.name, fmt::format("{} is no whole number", real));
      }
      integer = static_cast<std::int64_t>(real);
    }
    const auto encoded = EncodeValue(scalar.dtype, integer);
    if (!encoded.ok()) return Under("args." + arg.name, encoded.status());
    scalar.integer = integer;
  }
  out_.scalars.push_back(std::move(scalar));
  return absl::OkStatus();
}

absl::Status CaseBinder::BindTolerances() {
  for (const ToleranceDecl& declared : model_.tolerances) {
    BoundTolerance out;
    out.output = declared.output;
    out.kind = declared.kind;
    out.rtol = declared.rtol;
    out.atol = declared.atol;
    out.raw = declared.raw;
    out.acc = declared.acc;
    out.inner = declared.inner;
    auto reduce = declared.reduce.Evaluate(scope_);
    if (!reduce.ok()) return Under("tolerance." + declared.output, reduce.status());
    out.reduce = std::max<std::int64_t>(1, *reduce);
    out_.tolerances.push_back(std::move(out));
  }
  return absl::OkStatus();
}

}  // namespace

bool DimDomain::Contains(std::int64_t value) const {
  if (other && value == *other) return true;
  if (!in.empty()) return std::find(in.begin(), in.end(), value) != in.end();
  return value >= min && value <= max && value % multiple_of == 0;
}

std::string DimDomain::Describe() const {
  std::string out = in.empty() ? fmt::format("{} to {}", min, max)
                               : fmt::format("one of {}", fmt::join(in, ", "));
  if (multiple_of != 1) out += fmt::format(" in multiples of {}", multiple_of);
  if (other) out += fmt::format(", or {}", *other);
  return out;
}

absl::StatusOr<DimDomain> DomainOf(const DimDecl& dim, const ExprScope& scope) {
  DimDomain domain;
  domain.in = dim.in;
  if (dim.in.empty()) {
    FETTLE_ASSIGN_OR_RETURN(domain.min, dim.min.Evaluate(scope));
    FETTLE_ASSIGN_OR_RETURN(domain.max, dim.max.Evaluate(scope));
  }
  FETTLE_ASSIGN_OR_RETURN(domain.multiple_of, dim.multiple_of.Evaluate(scope));
  if (domain.multiple_of < 1) {
    return absl::InvalidArgumentError(fmt::format("multiple_of is {}", domain.multiple_of));
  }
  if (dim.or_value) {
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, dim.or_value->Evaluate(scope));
    domain.other = value;
  }
  return domain;
}

absl::Status BindWork(const TaskModel& model, const std::map<std::string, std::int64_t>& unique,
                      BoundCase& bound_case) {
  bound_case.work_from_reference = model.work.from_reference;
  bound_case.work_is_estimate = model.work.estimate;
  ExprScope scope = ScopeOf(bound_case);
  // `unique(index)` is known once the index is filled; until then one distinct value is the least.
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (tensor.role != Role::kIndex || scope.Find(tensor.name) != nullptr) continue;
    const auto known = unique.find(tensor.name);
    const std::int64_t count =
        known != unique.end() ? known->second : std::min<std::int64_t>(1, tensor.elements());
    std::vector<std::int64_t> distinct(static_cast<std::size_t>(std::max<std::int64_t>(0, count)));
    for (std::size_t i = 0; i < distinct.size(); ++i) distinct[i] = static_cast<std::int64_t>(i);
    scope.Set(tensor.name, std::move(distinct));
  }
  const auto bytes = model.work.bytes.Evaluate(scope), flops = model.work.flops.Evaluate(scope);
  if (!bytes.ok()) return Under("work.bytes", bytes.status());
  if (!flops.ok()) return Under("work.flops", flops.status());
  if (*bytes < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "work.bytes is {} for this case; it is the least that any version moves, 0 or more",
        *bytes));
  }
  bound_case.work_bytes = static_cast<double>(*bytes);
  bound_case.work_flops = static_cast<double>(std::max<std::int64_t>(0, *flops));
  return absl::OkStatus();
}

absl::StatusOr<BoundCase> BindCase(const TaskModel& model, const TaskFiles& files,
                                   const CaseDecl& declared, CaseSet set, std::string label,
                                   std::uint64_t seed, std::uint64_t salt) {
  BoundCase out;
  out.label = std::move(label);
  out.set = set;
  out.weight = declared.weight;
  out.deterministic = model.contract.deterministic;
  out.linear = model.contract.linear;
  const Random random = Random::For({seed, static_cast<std::uint64_t>(set), salt});
  FETTLE_RETURN_IF_ERROR(CaseBinder(model, files, declared, out, random).Bind());
  return out;
}

}  // namespace fettle
