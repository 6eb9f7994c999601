// SPDX-License-Identifier: Apache-2.0
// Draws held-out cases from the task's domain.

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/npy_list.h"
#include "core/random.h"
#include "core/task_impl.h"

namespace fettle {
namespace {

constexpr int kMaxDraws = 10000;
constexpr std::uint64_t kHeldOutSalt = 0x68656c64;

// Log-uniform over [lo, hi], both included.
std::int64_t LogUniform(std::int64_t lo, std::int64_t hi, Random& random) {
  if (lo >= hi) return lo;
  // Shifted so that the least value has weight: ln(1 + value - lo).
  const double span = std::log1p(static_cast<double>(hi - lo) + 1);
  const double value = std::expm1(random.Uniform() * span);
  const auto offset = static_cast<std::int64_t>(std::min(value, static_cast<double>(hi - lo)));
  return std::clamp(lo + offset, lo, hi);
}

class Drawer {
 public:
  Drawer(const TaskModel& model, const TaskFiles& files, std::uint64_t seed)
      : model_(model), files_(files), random_(Random::For({seed, kHeldOutSalt})) {}

  // One try: values for every dim, not yet checked. `number` counts the held-out cases, so that
  // the first ones sit on the domain's edges.
  absl::StatusOr<CaseDecl> Draw(int number, bool edges);

 private:
  std::int64_t DrawPlain(const DimDomain& domain, int edge);
  absl::StatusOr<CaseValue> DrawList(const DimDecl& dim, const DimDomain& domain,
                                     const ExprScope& scope);
  absl::StatusOr<CaseValue> DrawDim(const DimDecl& dim, const ExprScope& scope, int edge);
  void DrawScalars(int number, CaseDecl& out);

  const TaskModel& model_;
  const TaskFiles& files_;
  Random random_;
};

std::int64_t Drawer::DrawPlain(const DimDomain& domain, int edge) {
  if (domain.other && random_.Below(2) == 0) return *domain.other;
  if (!domain.in.empty()) return domain.in[random_.Below(domain.in.size())];
  const std::int64_t m = domain.multiple_of;
  // Multiples of m within [min, max]; C++ division truncates, so round by sign.
  const std::int64_t lo = domain.min > 0 ? (domain.min - 1) / m + 1 : domain.min / m;
  const std::int64_t hi = domain.max >= 0 ? domain.max / m : -((-domain.max - 1) / m) - 1;
  if (lo >= hi) return lo * m;
  switch (edge) {
    case 0:
      return lo * m;
    case 1:
      return (lo + 1) * m;
    case 2:
      return hi * m;
    default:
      return LogUniform(lo, hi, random_) * m;
  }
}

absl::StatusOr<CaseValue> Drawer::DrawList(const DimDecl& dim, const DimDomain& domain,
                                           const ExprScope& scope) {
  CaseValue out;
  out.kind = CaseValue::Kind::kList;
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t length, dim.length.EvaluateExact(scope));
  if (length < 0 || length > (std::int64_t{1} << 22)) {
    return absl::InvalidArgumentError("the list is too long");
  }
  std::vector<std::int64_t> pool = domain.in;
  if (!dim.file.empty()) {
    FETTLE_ASSIGN_OR_RETURN(pool, ReadNpyList(files_.at(dim.file)));
    if (pool.empty() && length > 0) return absl::InvalidArgumentError("the file has no entries");
  }
  // A list's scale varies from draw to draw: its entries are uniform up to a log-uniform bound.
  DimDomain scaled = domain;
  if (pool.empty()) scaled.max = LogUniform(domain.min, domain.max, random_);
  for (std::int64_t i = 0; i < length; ++i) {
    if (!pool.empty()) {
      out.list.push_back(pool[random_.Below(pool.size())]);
    } else {
      const std::int64_t m = domain.multiple_of;
      const auto span = static_cast<std::uint64_t>((scaled.max - domain.min) / m) + 1;
      const std::int64_t lo = domain.min > 0 ? (domain.min - 1) / m + 1 : domain.min / m;
      out.list.push_back((lo + static_cast<std::int64_t>(random_.Below(span))) * m);
    }
  }
  return out;
}

absl::StatusOr<CaseValue> Drawer::DrawDim(const DimDecl& dim, const ExprScope& scope, int edge) {
  FETTLE_ASSIGN_OR_RETURN(const DimDomain domain, DomainOf(dim, scope));
  if (dim.is_list) return DrawList(dim, domain, scope);
  CaseValue out;
  const auto& specialized = model_.specialize;
  if (std::find(specialized.begin(), specialized.end(), dim.name) != specialized.end()) {
    // Only values that the cases have, since each is a build of its own.
    std::vector<std::int64_t> values;
    for (const auto* cases : {&model_.timed, &model_.checked}) {
      for (const CaseDecl& entry : *cases) values.push_back(entry.dims.at(dim.name).number);
    }
    out.number = values[random_.Below(values.size())];
    return out;
  }
  out.number = DrawPlain(domain, edge);
  return out;
}

void Drawer::DrawScalars(int number, CaseDecl& out) {
  for (const ArgDecl& arg : model_.args) {
    if (arg.value_kind != ArgDecl::Value::kPerCase || !arg.from.empty() || arg.from_uniform)
      continue;
    const CaseDecl& timed = model_.timed[static_cast<std::size_t>(number) % model_.timed.size()];
    out.scalars[arg.name] = timed.scalars.at(arg.name);
  }
}

absl::StatusOr<CaseDecl> Drawer::Draw(int number, bool edges) {
  CaseDecl out;
  ExprScope scope;
  for (const TypeFamily& family : model_.types) {
    const DType dtype = family.dtypes[random_.Below(family.dtypes.size())];
    out.types[family.name] = dtype;
    scope.Set(fmt::format("sizeof({})", family.name), SizeOf(dtype));
  }
  // One dim of each of the first cases sits on an edge for sure, others now and then.
  const std::size_t chosen = random_.Below(std::max<std::size_t>(1, model_.dims.size()));
  for (std::size_t i = 0; i < model_.dims.size(); ++i) {
    const DimDecl& dim = model_.dims[i];
    if (dim.let && !dim.is_list) {
      FETTLE_ASSIGN_OR_RETURN(ExprValue value, dim.let->EvaluateValue(scope));
      scope.Set(dim.name, std::move(value));
      continue;
    }
    if (dim.let) {
      FETTLE_ASSIGN_OR_RETURN(const std::int64_t length, dim.length.EvaluateExact(scope));
      std::vector<std::int64_t> values;
      ExprScope inner = scope;
      for (std::int64_t k = 0; k < length; ++k) {
        inner.Set("i", k);
        FETTLE_ASSIGN_OR_RETURN(const std::int64_t value, dim.let->Evaluate(inner));
        values.push_back(value);
      }
      scope.Set(dim.name, std::move(values));
      continue;
    }
    int edge = random_.Below(6) == 0 ? static_cast<int>(random_.Below(3)) : -1;
    if (edges && i == chosen) edge = number % 3;
    auto value = DrawDim(dim, scope, edge);
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("dims.{}: {}", dim.name, std::string(value.status().message())));
    }
    if (dim.is_list) {
      scope.Set(dim.name, value->list);
    } else {
      scope.Set(dim.name, value->number);
    }
    out.dims[dim.name] = *std::move(value);
  }
  DrawScalars(number, out);
  return out;
}

// The part of a failure that names its cause without the values drawn.
std::string CauseOf(const absl::Status& status) {
  std::string message(status.message());
  const std::size_t with = message.find(" with ");
  const std::size_t holds = message.find("' does not hold");
  if (holds != std::string::npos) return message.substr(0, holds + 1);
  return message.substr(0, with == std::string::npos ? message.find(": ") : with);
}

}  // namespace

absl::StatusOr<std::vector<BoundCase>> Task::DrawHeldOut(std::uint64_t seed,
                                                         std::int64_t memory_cap,
                                                         const TooLarge& too_large) const {
  const TaskModel& m = model();
  std::vector<BoundCase> out;
  Drawer drawer(m, files(), seed);
  std::map<std::string, int> causes;
  int draws = 0;
  while (static_cast<int>(out.size()) < m.held_out) {
    if (draws >= kMaxDraws) {
      const auto worst =
          std::max_element(causes.begin(), causes.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      return absl::InvalidArgumentError(fmt::format(
          "draw held-out sizes: {} draws gave only {} of {} cases; {} of them failed on {}; narrow "
          "the dims' domains or add 'multiple_of'",
          draws, out.size(), m.held_out, worst->second, worst->first));
    }
    const int number = static_cast<int>(out.size());
    // Half of the draws insist on an edge; where none fits, the others still find a case.
    const absl::StatusOr<CaseDecl> drawn = drawer.Draw(number, /*edges=*/draws % 2 == 0);
    ++draws;
    if (!drawn.ok()) {
      ++causes[CauseOf(drawn.status())];
      continue;
    }
    absl::StatusOr<BoundCase> bound =
        BindCase(m, files(), *drawn, CaseSet::kHeldOut, fmt::format("held_out/{}", number), seed,
                 static_cast<std::uint64_t>(draws));
    if (!bound.ok()) {
      ++causes[CauseOf(bound.status())];
      continue;
    }
    if (CaseBytes(*bound) > memory_cap) {
      ++causes[fmt::format("the memory cap of {} bytes", memory_cap)];
      continue;
    }
    if (const std::string cause = too_large ? too_large(*bound) : ""; !cause.empty()) {
      ++causes[cause];
      continue;
    }
    out.push_back(*std::move(bound));
  }
  return out;
}

}  // namespace fettle
