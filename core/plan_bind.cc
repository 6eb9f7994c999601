// SPDX-License-Identifier: Apache-2.0
// Evaluates a canonical launch plan (plan_parse.cc) for one case.

#include "core/plan_bind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/doc.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLaunches = 256;
constexpr std::int64_t kMaxRepeats = 1 << 20;

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(status.message())));
}

const char* VendorRule(const Target& target) {
  return target.vendor == Vendor::kAmd ? " (HIP allows less than 2^32 threads along an axis)" : "";
}

class PlanBinder {
 public:
  PlanBinder(const TaskModel& model, const KernelSpec& kernel, const TunableValues& values,
             const BoundCase& bound_case, const Target& target, bool check_limits)
      : model_(model),
        kernel_(kernel),
        values_(values),
        case_(bound_case),
        target_(target),
        check_limits_(check_limits),
        scope_(ScopeOf(bound_case)) {
    AddTunables(values, scope_);
    AddTarget(target, scope_);
  }

  absl::StatusOr<BoundPlan> Bind() {
    FETTLE_RETURN_IF_ERROR(BindWorkspace());
    FETTLE_RETURN_IF_ERROR(Steps(kernel_.launches, "launches"));
    return std::move(plan_);
  }

 private:
  absl::Status BindWorkspace();
  absl::Status Steps(const json& steps, const std::string& path);
  absl::Status Step(const json& step, const std::string& path);
  absl::Status Repeat(const json& step, const std::string& path);
  absl::Status Kernel(const json& step, const std::string& path);
  absl::Status FillStep(const json& step, const std::string& path);
  absl::Status CopyStep(const json& step, const std::string& path);
  absl::Status CheckLimits(const BoundStep& step, const std::string& path);
  absl::StatusOr<BoundArg> Argument(const json& arg, const std::string& path);
  absl::StatusOr<BoundArg> Named(const std::string& name, const std::string& path);
  absl::StatusOr<BoundArg> Buffer(const json& arg, const std::string& path);
  absl::StatusOr<BoundArg> ValueArg(const json& arg, const std::string& path);
  absl::StatusOr<BoundArg> Struct(const json& arg, const std::string& path);
  absl::StatusOr<BoundArg> TensorMap(const json& arg, const std::string& path);
  absl::Status Extents(const json& list, const std::string& path, bool exact,
                       std::array<std::int64_t, 3>& out);

  // Evaluates text; `exact` refuses an inexact `/`.
  absl::StatusOr<std::int64_t> Eval(const json& text, const std::string& path, bool exact = false) {
    const absl::StatusOr<Expr> expr =
        Expr::Parse(text.is_string() ? text.get<std::string>() : text.dump());
    if (!expr.ok()) return At(path, expr.status());
    const auto value = exact ? expr->EvaluateExact(scope_) : expr->Evaluate(scope_);
    if (!value.ok()) return At(path, value.status());
    return *value;
  }
  absl::StatusOr<std::int64_t> EvalOr(const json& step, const char* key, std::int64_t fallback,
                                      const std::string& path) {
    const auto found = step.find(key);
    if (found == step.end()) return fallback;
    return Eval(*found, fmt::format("{}.{}", path, key));
  }
  // Elements and dtype behind a buffer argument.
  std::pair<std::int64_t, DType> SizeOfBuffer(const BoundArg& arg) const;
  DType Resolve(const std::string& type) const;

  const TaskModel& model_;
  const KernelSpec& kernel_;
  const TunableValues& values_;
  const BoundCase& case_;
  const Target& target_;
  const bool check_limits_;
  ExprScope scope_;
  BoundPlan plan_;
};

DType PlanBinder::Resolve(const std::string& type) const {
  if (!type.empty() && type[0] == '$') {
    for (const auto& [family, dtype] : case_.types) {
      if (family == type.substr(1)) return dtype;
    }
  }
  return ParseDType(type).value_or(DType::kI64);
}

absl::Status PlanBinder::BindWorkspace() {
  for (const json& entry : kernel_.workspace) {
    BoundWorkspace out;
    out.name = entry.value("name", "");
    const std::string path = "workspace." + out.name;
    out.dtype = Resolve(entry.value("dtype", "u8"));
    out.zero = entry.value("init", "") == "zero";
    out.count = 1;
    for (const json& extent : entry.value("shape", json::array())) {
      FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, Eval(extent, path, /*exact=*/true));
      if (value < 0) {
        return absl::InvalidArgumentError(
            fmt::format("{}: the extent '{}' is {}", path, extent.dump(), value));
      }
      constexpr std::int64_t kMost = std::int64_t{1} << 44;
      if (__builtin_mul_overflow(out.count, value, &out.count) || out.count > kMost) {
        return absl::InvalidArgumentError(
            fmt::format("{}: needs more memory than any device has", path));
      }
    }
    plan_.workspace.push_back(std::move(out));
  }
  return absl::OkStatus();
}

absl::Status PlanBinder::Steps(const json& steps, const std::string& path) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    FETTLE_RETURN_IF_ERROR(Step(steps[i], fmt::format("{}[{}]", path, i)));
  }
  return absl::OkStatus();
}

absl::Status PlanBinder::Step(const json& step, const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t when, EvalOr(step, "when", 1, path));
  if (when == 0) return absl::OkStatus();
  if (step.contains("repeat")) return Repeat(step, path);
  if (step.contains("fill")) return FillStep(step, path);
  if (step.contains("copy")) return CopyStep(step, path);
  return Kernel(step, path);
}

absl::Status PlanBinder::Repeat(const json& step, const std::string& path) {
  const auto variable = step["repeat"].begin();
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t count, Eval(variable.value(), path + ".repeat"));
  if (count < 0 || count > kMaxRepeats) {
    return absl::InvalidArgumentError(
        fmt::format("{}.repeat: {} repetitions; give between 0 and {}", path, count, kMaxRepeats));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    scope_.Set(variable.key(), i);
    FETTLE_RETURN_IF_ERROR(Steps(step["steps"], path + ".steps"));
  }
  return absl::OkStatus();
}

absl::Status PlanBinder::Extents(const json& list, const std::string& path, bool exact,
                                 std::array<std::int64_t, 3>& out) {
  for (std::size_t i = 0; i < list.size() && i < 3; ++i) {
    const std::string where = fmt::format("{}[{}]", path, i);
    FETTLE_ASSIGN_OR_RETURN(out[i], Eval(list[i], where, exact));
    if (out[i] < 0) {
      return absl::InvalidArgumentError(fmt::format("{}: '{}' is {}; an extent cannot be negative",
                                                    where, list[i].get<std::string>(), out[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanBinder::Kernel(const json& step, const std::string& path) {
  BoundStep out;
  FETTLE_RETURN_IF_ERROR(Extents(step["grid"], path + ".grid", /*exact=*/true, out.grid));
  for (const std::int64_t extent : out.grid) {
    if (extent == 0) return absl::OkStatus();  // Nothing to do.
  }
  FETTLE_RETURN_IF_ERROR(Extents(step["block"], path + ".block", /*exact=*/true, out.block));
  if (step.contains("cluster")) {
    out.cluster = {1, 1, 1};
    FETTLE_RETURN_IF_ERROR(
        Extents(step["cluster"], path + ".cluster", /*exact=*/true, out.cluster));
  }
  FETTLE_ASSIGN_OR_RETURN(out.shared_bytes, EvalOr(step, "shared", 0, path));
  out.cooperative = step.value("cooperative", false);
  out.entry = SpellEntry(model_, kernel_, values_, case_, step.value("kernel", ""));
  const json& args = step["args"];
  for (std::size_t i = 0; i < args.size(); ++i) {
    FETTLE_ASSIGN_OR_RETURN(BoundArg arg, Argument(args[i], fmt::format("{}.args[{}]", path, i)));
    out.args.push_back(std::move(arg));
  }
  FETTLE_RETURN_IF_ERROR(CheckLimits(out, path));
  plan_.steps.push_back(std::move(out));
  if (plan_.steps.size() > kMaxLaunches) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the plan has more than {} launches for {}", path, kMaxLaunches,
                    case_.set == CaseSet::kHeldOut ? "a held-out case" : case_.Describe()));
  }
  return absl::OkStatus();
}

absl::Status PlanBinder::CheckLimits(const BoundStep& step, const std::string& path) {
  const auto refuse = [&](std::string message) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, message));
  };
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (step.block[i] == 0) {
      return refuse(fmt::format("block [{}] has no threads", fmt::join(step.block, ", ")));
    }
    if (__builtin_mul_overflow(threads, step.block[i], &threads)) threads = INT64_MAX;
  }
  if (step.shared_bytes < 0) return refuse(fmt::format("shared is {} bytes", step.shared_bytes));
  if (!check_limits_) return absl::OkStatus();
  if (threads > target_.max_block) {
    return refuse(fmt::format("block [{}] has {} threads; {} allows {}",
                              fmt::join(step.block, ", "), threads, target_.name,
                              target_.max_block));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (step.block[i] > target_.max_block_dim[i]) {
      return refuse(fmt::format("block[{}] is {}; {} allows {}", i, step.block[i], target_.name,
                                target_.max_block_dim[i]));
    }
    if (step.grid[i] > target_.max_grid[i]) {
      return refuse(fmt::format("grid[{}] is {}; {} allows {}", i, step.grid[i], target_.name,
                                target_.max_grid[i]));
    }
    if (target_.vendor == Vendor::kAmd && step.grid[i] * step.block[i] >= std::int64_t{1} << 32) {
      return refuse(fmt::format("grid[{}] x block[{}] is {} threads{}", i, i,
                                step.grid[i] * step.block[i], VendorRule(target_)));
    }
    if (step.cluster[0] > 0 && (step.cluster[i] == 0 || step.grid[i] % step.cluster[i] != 0)) {
      return refuse(fmt::format("grid[{}] of {} is no multiple of cluster[{}] of {}", i,
                                step.grid[i], i, step.cluster[i]));
    }
  }
  if (step.cluster[0] > 0 && target_.vendor == Vendor::kAmd) {
    return refuse(fmt::format("{} has no clusters", target_.name));
  }
  if (step.shared_bytes > target_.lds) {
    return refuse(fmt::format("{} bytes of dynamic shared memory; {} allows {}", step.shared_bytes,
                              target_.name, target_.lds));
  }
  return absl::OkStatus();
}

std::pair<std::int64_t, DType> PlanBinder::SizeOfBuffer(const BoundArg& arg) const {
  const auto index = static_cast<std::size_t>(arg.index);
  if (arg.kind == BoundArg::Kind::kWorkspace) {
    return {plan_.workspace[index].count, plan_.workspace[index].dtype};
  }
  if (arg.kind == BoundArg::Kind::kTensor) {
    return {case_.tensors[index].extent(), case_.tensors[index].dtype};
  }
  return {0, DType::kU8};
}

absl::StatusOr<BoundArg> PlanBinder::Named(const std::string& name, const std::string& path) {
  BoundArg out;
  for (std::size_t i = 0; i < case_.pointers.size(); ++i) {
    if (case_.pointers[i].name != name) continue;
    out.kind = BoundArg::Kind::kPointers;
    out.index = static_cast<std::int64_t>(i);
    return out;
  }
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    if (case_.tensors[i].name != name) continue;
    out.kind = case_.tensors[i].is_null ? BoundArg::Kind::kNull : BoundArg::Kind::kTensor;
    out.index = static_cast<std::int64_t>(i);
    return out;
  }
  for (std::size_t i = 0; i < plan_.workspace.size(); ++i) {
    if (plan_.workspace[i].name != name) continue;
    out.kind = BoundArg::Kind::kWorkspace;
    out.index = static_cast<std::int64_t>(i);
    return out;
  }
  for (const BoundScalar& scalar : case_.scalars) {
    if (scalar.name != name) continue;
    if (IsFloat(scalar.dtype)) {
      out.bytes = EncodeReal(scalar.dtype, scalar.real);
    } else {
      FETTLE_ASSIGN_OR_RETURN(out.bytes, EncodeValue(scalar.dtype, scalar.integer));
    }
    return out;
  }
  const ExprValue* value = scope_.Find(name);
  if (value == nullptr || !std::holds_alternative<std::int64_t>(*value)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is no argument, workspace or dim", path, name));
  }
  FETTLE_ASSIGN_OR_RETURN(out.bytes, EncodeValue(DType::kI64, std::get<std::int64_t>(*value)));
  return out;
}

absl::StatusOr<BoundArg> PlanBinder::Buffer(const json& arg, const std::string& path) {
  const std::string name = arg.value("buffer", "");
  FETTLE_ASSIGN_OR_RETURN(BoundArg out, Named(name, path));
  if (arg.contains("member")) {
    if (out.kind != BoundArg::Kind::kPointers) {
      return absl::InvalidArgumentError(fmt::format("{}: '{}' has no members", path, name));
    }
    const BoundPointers& pointers = case_.pointers[static_cast<std::size_t>(out.index)];
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t member, EvalOr(arg, "member", 0, path));
    if (member < 0 || member >= pointers.count) {
      return absl::InvalidArgumentError(fmt::format("{}: '{}' has {} members, there is no {}", path,
                                                    name, pointers.count, member));
    }
    out.index = pointers.first + member;
    out.kind = case_.tensors[static_cast<std::size_t>(out.index)].is_null ? BoundArg::Kind::kNull
                                                                          : BoundArg::Kind::kTensor;
  }
  FETTLE_ASSIGN_OR_RETURN(out.offset, EvalOr(arg, "offset", 0, path));
  if (out.kind == BoundArg::Kind::kNull && out.offset == 0) return out;
  const auto [count, dtype] = SizeOfBuffer(out);
  if (out.offset < 0 || (out.offset > count && out.offset != 0)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: offset {} lies outside '{}', which has {} "
                    "elements",
                    path, out.offset, name, count));
  }
  if (dtype == DType::kF4E2M1X2 && out.offset % 2 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: offset {} splits a pair of f4e2m1x2", path, out.offset));
  }
  return out;
}

absl::StatusOr<BoundArg> PlanBinder::ValueArg(const json& arg, const std::string& path) {
  BoundArg out;
  const DType dtype = Resolve(arg.value("dtype", "i64"));
  if (IsFloat(dtype)) {
    const auto number =
        arg["value"].is_string() ? ParseReal(arg["value"].get<std::string>()) : std::nullopt;
    if (number) {
      out.bytes = EncodeReal(dtype, *number);
      return out;
    }
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, Eval(arg["value"], path));
    out.bytes = EncodeReal(dtype, static_cast<double>(value));
    return out;
  }
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, Eval(arg["value"], path));
  auto bytes = EncodeValue(dtype, value);
  if (!bytes.ok()) return At(path, bytes.status());
  out.bytes = *std::move(bytes);
  return out;
}

absl::StatusOr<BoundArg> PlanBinder::Struct(const json& arg, const std::string& path) {
  BoundArg out;
  out.kind = BoundArg::Kind::kStruct;
  out.bytes.assign(arg["size"].get<std::size_t>(), 0);
  out.align = arg["align"].get<std::int64_t>();
  const auto size = static_cast<std::int64_t>(out.bytes.size());
  for (const json& field : arg["fields"]) {
    const auto at = field["at"].get<std::int64_t>();
    BoundArg value;
    if (field.contains("arg")) {
      FETTLE_ASSIGN_OR_RETURN(value, Named(field["arg"].get<std::string>(), path));
    } else if (field.contains("buffer")) {
      FETTLE_ASSIGN_OR_RETURN(value, Buffer(field, path));
    } else {
      FETTLE_ASSIGN_OR_RETURN(value, ValueArg(field, path));
    }
    std::int64_t bytes = 8;
    if (value.kind == BoundArg::Kind::kValue) bytes = static_cast<std::int64_t>(value.bytes.size());
    if (value.kind == BoundArg::Kind::kPointers &&
        case_.pointers[static_cast<std::size_t>(value.index)].in_struct) {
      bytes = 8 * case_.pointers[static_cast<std::size_t>(value.index)].count;
    }
    if (at < 0 || bytes > size - at) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} bytes at {} do not fit a struct of {} bytes", path, bytes, at, size));
    }
    if (value.kind == BoundArg::Kind::kValue) {
      std::copy(value.bytes.begin(), value.bytes.end(), out.bytes.begin() + at);
    } else {
      out.fields.emplace_back(at, std::move(value));
    }
  }
  return out;
}

absl::StatusOr<BoundArg> PlanBinder::TensorMap(const json& arg, const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const BoundArg buffer, Buffer(arg, path));
  json map = {{"interleave", arg["interleave"]},
              {"swizzle", arg["swizzle"]},
              {"l2_promotion", arg["l2_promotion"]},
              {"oob_fill", arg["oob_fill"]},
              {"dtype", DTypeName(SizeOfBuffer(buffer).second)}};
  for (const char* key : {"shape", "strides", "box", "element_strides"}) {
    if (!arg.contains(key)) continue;
    map[key] = json::array();
    for (const json& extent : arg[key]) {
      FETTLE_ASSIGN_OR_RETURN(const std::int64_t value,
                              Eval(extent, fmt::format("{}.{}", path, key), /*exact=*/true));
      map[key].push_back(value);
    }
  }
  BoundArg out = buffer;
  out.kind = BoundArg::Kind::kTensorMap;
  out.fields.emplace_back(0, buffer);
  out.tensor_map = map.dump();
  return out;
}

absl::StatusOr<BoundArg> PlanBinder::Argument(const json& arg, const std::string& path) {
  if (arg.is_null()) {
    BoundArg out;
    out.kind = BoundArg::Kind::kNull;
    return out;
  }
  if (arg.is_string()) return Named(arg.get<std::string>(), path);
  if (arg.contains("value")) return ValueArg(arg, path);
  if (arg.contains("struct")) return Struct(arg["struct"], path);
  if (arg.contains("tensor_map")) return TensorMap(arg["tensor_map"], path);
  return Buffer(arg, path);
}

absl::Status PlanBinder::FillStep(const json& step, const std::string& path) {
  BoundStep out;
  out.kind = BoundStep::Kind::kFill;
  json buffer = step;
  buffer["buffer"] = step["fill"];
  FETTLE_ASSIGN_OR_RETURN(out.target, Buffer(buffer, path + ".fill"));
  if (out.target.kind == BoundArg::Kind::kNull) return absl::OkStatus();
  const auto [elements, dtype] = SizeOfBuffer(out.target);
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t count,
                          EvalOr(step, "count", elements - out.target.offset, path));
  if (count < 0 || count > elements - out.target.offset ||
      out.target.kind == BoundArg::Kind::kPointers) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} elements from {} do not fit '{}', which has {}", path, count,
                    out.target.offset, step["fill"].get<std::string>(), elements));
  }
  if (count == 0) return absl::OkStatus();
  out.byte_count = StorageBytes(dtype, count);
  out.fill_byte = static_cast<std::uint8_t>(step.value("byte", 0));
  plan_.steps.push_back(std::move(out));
  return absl::OkStatus();
}

absl::Status PlanBinder::CopyStep(const json& step, const std::string& path) {
  BoundStep out;
  out.kind = BoundStep::Kind::kCopy;
  const json from = {{"buffer", step["copy"]}, {"offset", step["offset"]}};
  const json to = {{"buffer", step["to"]}, {"offset", step["to_offset"]}};
  FETTLE_ASSIGN_OR_RETURN(out.source, Buffer(from, path + ".copy"));
  FETTLE_ASSIGN_OR_RETURN(out.target, Buffer(to, path + ".to"));
  const auto [from_elements, from_dtype] = SizeOfBuffer(out.source);
  const auto [to_elements, to_dtype] = SizeOfBuffer(out.target);
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t count,
                          EvalOr(step, "count", from_elements - out.source.offset, path));
  const std::int64_t bytes = count < 0 ? -1 : StorageBytes(from_dtype, count);
  if (count < 0 || count > from_elements - out.source.offset ||
      bytes > StorageBytes(to_dtype, to_elements - out.target.offset)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} elements do not fit from '{}' ({} elements from {}) into '{}' ({} from "
                    "{})",
                    path, count, step["copy"].get<std::string>(), from_elements, out.source.offset,
                    step["to"].get<std::string>(), to_elements, out.target.offset));
  }
  if (count == 0) return absl::OkStatus();
  out.byte_count = bytes;
  plan_.steps.push_back(std::move(out));
  return absl::OkStatus();
}

}  // namespace

ExprScope ScopeOf(const BoundCase& bound_case) {
  ExprScope scope;
  for (const BoundDim& dim : bound_case.dims) {
    if (dim.is_list) {
      scope.Set(dim.name, dim.values);
    } else {
      scope.Set(dim.name, dim.values.front());
    }
  }
  for (const auto& [family, dtype] : bound_case.types) {
    scope.Set(fmt::format("sizeof({})", family), SizeOf(dtype));
  }
  return scope;
}

void AddTunables(const TunableValues& values, ExprScope& scope) {
  for (const auto& [name, value] : values) scope.Set(name, value);
}

void AddTarget(const Target& target, ExprScope& scope) {
  for (const auto& [name, value] : TargetVariables(target)) scope.Set("target." + name, value);
}

absl::StatusOr<std::vector<std::uint8_t>> EncodeValue(DType dtype, std::int64_t integer) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(SizeOf(dtype)));
  EncodeInteger(dtype, integer, bytes.data(), 0);
  if (DecodeInteger(dtype, bytes.data(), 0) != integer) {
    return absl::InvalidArgumentError(fmt::format("{} does not fit {}", integer, DTypeName(dtype)));
  }
  return bytes;
}

std::vector<std::uint8_t> EncodeReal(DType dtype, double value) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(SizeOf(dtype)));
  EncodeFloat(dtype, value, bytes.data(), 0);
  return bytes;
}

absl::StatusOr<BoundPlan> BindLaunches(const TaskModel& model, const KernelSpec& kernel,
                                       const TunableValues& values, const BoundCase& bound_case,
                                       const Target& target, bool check_limits) {
  return PlanBinder(model, kernel, values, bound_case, target, check_limits).Bind();
}

}  // namespace fettle
