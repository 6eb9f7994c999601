// SPDX-License-Identifier: Apache-2.0
// Draws held-out cases from the task's domain. A plain dim's values form a Latin hypercube: each of
// the N cases has another N-th of the logarithmic range, and the cases take turns among values that
// are odd, divisible by a small power of two only, or by a larger one. A kernel that is right for
// small, odd or well aligned sizes only meets a size of another kind in every draw of three. Each
// dtype meets large values of each dim: a kernel may be wrong for one dtype's long rows only.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/npy_list.h"
#include "core/random.h"
#include "core/task_impl.h"

namespace fettle {
namespace {

constexpr int kMaxDraws = 10000;
constexpr std::uint64_t kHeldOutSalt = 0x68656c64;
constexpr int kEdges = 3;
constexpr int kLargeTries = 24;  // Strict ones at first, of a case with a large value.
constexpr int kMostLarge = 6;   // Cases with a large value.
constexpr int kLargeParts = 3;  // Small is the first third of the logarithmic range.

// 0 to count - 1 in random order.
std::vector<int> Shuffled(std::size_t count, Random& random) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), 0);
  for (std::size_t i = count; i > 1; --i) std::swap(out[i - 1], out[random.Below(i)]);
  return out;
}

// Where in a dim's range one case's value is to lie.
struct Stratum {
  int part = 0, parts = 1;  // The part-th of `parts` equal parts of the logarithmic range.
  int alignment = -1;       // Index into kTrailingZeros; negative: any value.
  bool large = false;       // Rather the largest value, or one within two octaves of it.
};

// Trailing zero bits, from and to, in units of the dim's multiple_of.
constexpr std::array<std::array<int, 2>, 3> kTrailingZeros = {{{0, 0}, {1, 2}, {3, 5}}};

// Log-uniform over [lo, hi], both included.
std::int64_t LogUniform(std::int64_t lo, std::int64_t hi, const Stratum& stratum, Random& random) {
  if (lo >= hi) return lo;
  if (stratum.large) {
    if (random.Below(2) == 0) return hi;
    return LogUniform(std::max(lo, hi / 4), hi, Stratum(), random);
  }
  // Shifted so that the least value has weight: ln(1 + value - lo).
  const double span = std::log1p(static_cast<double>(hi - lo) + 1);
  const double value = std::expm1((stratum.part + random.Uniform()) / stratum.parts * span);
  const auto offset = static_cast<std::int64_t>(std::min(value, static_cast<double>(hi - lo)));
  const std::int64_t drawn = std::clamp(lo + offset, lo, hi);
  if (stratum.alignment < 0) return drawn;
  const auto& [from, to] = kTrailingZeros[static_cast<std::size_t>(stratum.alignment)];
  const std::int64_t bit = std::int64_t{1}
                           << (from + static_cast<int>(
                                          random.Below(static_cast<std::uint64_t>(to - from) + 1)));
  // The value next to it with this bit as its lowest; too small a value stays as it is.
  const std::int64_t aligned = (drawn & -(2 * bit)) + bit;
  return aligned >= lo && aligned <= hi ? aligned : drawn;
}

class Drawer {
 public:
  Drawer(const TaskModel& model, const TaskFiles& files, std::uint64_t seed);

  // How many cases come before the others, on edges: the least two values and the largest.
  int edges() const { return plain_.empty() || model_.held_out == 0 ? 0 : kEdges; }
  // How many come after the others, each with a large value of one dim and one dtype.
  int large() const { return static_cast<int>(large_.size()); }
  // One try: values for every dim, not yet checked. `number` counts the cases, those on edges
  // first. Where `strict`, one dim of a case on an edge is on it and others keep to their strata;
  // constraints may allow that for no value.
  absl::StatusOr<CaseDecl> Draw(int number, bool strict);
  // A declared case of any dtype, with some of its dims as `drawn`: a kernel may claim values that
  // are hardly ever drawn.
  CaseDecl Near(const CaseDecl& drawn);

 private:
  std::int64_t DrawPlain(const DimDomain& domain, int edge, const Stratum& stratum);
  Stratum StratumOf(std::size_t dim, int number);
  absl::StatusOr<CaseValue> DrawList(const DimDecl& dim, const DimDomain& domain,
                                     const ExprScope& scope);
  absl::StatusOr<CaseValue> DrawDim(const DimDecl& dim, const ExprScope& scope, int edge,
                                    const Stratum& stratum);
  void DrawScalars(int number, CaseDecl& out);
  bool IsSpecialized(const DimDecl& dim) const;

  const TaskModel& model_;
  const TaskFiles& files_;
  Random random_;
  std::vector<std::size_t> plain_;  // Dims that have edges: neither lists nor chosen from a list.
  struct Large {
    std::size_t dim = 0, dtype = 0;  // The latter counts from first_dtype_.
  };
  std::vector<Large> large_;
  // By dim, then by case after those on edges: permutations of the parts and of the alignments.
  std::vector<std::vector<int>> parts_, alignments_;
  std::vector<std::size_t> first_dtype_;  // By type family.
};

Drawer::Drawer(const TaskModel& model, const TaskFiles& files, std::uint64_t seed)
    : model_(model), files_(files), random_(Random::For({seed, kHeldOutSalt})) {
  for (const TypeFamily& family : model.types) {
    first_dtype_.push_back(random_.Below(family.dtypes.size()));
  }
  const auto count = static_cast<std::size_t>(model.held_out);
  for (std::size_t i = 0; i < model.dims.size(); ++i) {
    const DimDecl& dim = model.dims[i];
    if (!dim.let && !dim.is_list && dim.in.empty() && !IsSpecialized(dim)) {
      plain_.push_back(i);
    }
    parts_.push_back(Shuffled(count, random_));
    std::vector<int> alignments = Shuffled(count, random_);
    const auto turn = static_cast<int>(random_.Below(kTrailingZeros.size()));
    for (int& alignment : alignments) {
      alignment = (alignment + turn) % static_cast<int>(kTrailingZeros.size());
    }
    alignments_.push_back(std::move(alignments));
  }
  if (edges() == 0) return;
  std::size_t dtypes = 1;
  for (const TypeFamily& family : model.types) dtypes = std::max(dtypes, family.dtypes.size());
  for (const std::size_t dim : plain_) {
    for (std::size_t dtype = 0; dtypes > 1 && dtype < dtypes; ++dtype) {
      large_.push_back({dim, dtype});
    }
  }
  const std::vector<int> order = Shuffled(large_.size(), random_);
  std::vector<Large> chosen;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), kMostLarge); ++i) {
    chosen.push_back(large_[static_cast<std::size_t>(order[i])]);
  }
  large_ = std::move(chosen);
}

bool Drawer::IsSpecialized(const DimDecl& dim) const {
  const auto& specialized = model_.specialize;
  return std::find(specialized.begin(), specialized.end(), dim.name) != specialized.end();
}

Stratum Drawer::StratumOf(std::size_t dim, int number) {
  if (number < edges()) return {};
  const auto at = static_cast<std::size_t>(number - edges());
  if (at >= parts_[dim].size()) {
    const bool is_large = large_[at - parts_[dim].size()].dim == dim;
    // The others stay small, so that memory allows it.
    return {.part = 0, .parts = kLargeParts, .large = is_large};
  }
  return {.part = parts_[dim][at],
          .parts = static_cast<int>(parts_[dim].size()),
          .alignment = alignments_[dim][at]};
}

std::int64_t Drawer::DrawPlain(const DimDomain& domain, int edge, const Stratum& stratum) {
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
      return LogUniform(lo, hi, stratum, random_) * m;
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
  if (pool.empty()) scaled.max = LogUniform(domain.min, domain.max, {}, random_);
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

absl::StatusOr<CaseValue> Drawer::DrawDim(const DimDecl& dim, const ExprScope& scope, int edge,
                                          const Stratum& stratum) {
  FETTLE_ASSIGN_OR_RETURN(const DimDomain domain, DomainOf(dim, scope));
  if (dim.is_list) return DrawList(dim, domain, scope);
  CaseValue out;
  if (IsSpecialized(dim)) {
    // Only values that the cases have, since each is a build of its own.
    std::vector<std::int64_t> values;
    for (const auto* cases : {&model_.timed, &model_.checked}) {
      for (const CaseDecl& entry : *cases) values.push_back(entry.dims.at(dim.name).number);
    }
    out.number = values[random_.Below(values.size())];
    return out;
  }
  out.number = DrawPlain(domain, edge, stratum);
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

absl::StatusOr<CaseDecl> Drawer::Draw(int number, bool strict) {
  CaseDecl out;
  ExprScope scope;
  const int of_large = number - edges() - model_.held_out;
  const std::size_t turn = of_large >= 0 ? large_[static_cast<std::size_t>(of_large)].dtype
                                         : static_cast<std::size_t>(number);
  for (std::size_t i = 0; i < model_.types.size(); ++i) {
    // In turn, so that few cases see them all.
    const TypeFamily& family = model_.types[i];
    // A kernel may not claim the one whose turn it is.
    const std::size_t at = strict ? first_dtype_[i] + turn : random_.Below(family.dtypes.size());
    const DType dtype = family.dtypes[at % family.dtypes.size()];
    out.types[family.name] = dtype;
    scope.Set(fmt::format("sizeof({})", family.name), SizeOf(dtype));
  }
  // One dim of each of the first cases sits on an edge, any dim now and then.
  const bool on_edge = number < edges();
  const std::size_t chosen = on_edge ? plain_[random_.Below(plain_.size())] : 0;
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
    int edge = random_.Below(6) == 0 ? static_cast<int>(random_.Below(kEdges)) : -1;
    if (strict) edge = on_edge && i == chosen ? number : on_edge ? edge : -1;
    auto value = DrawDim(dim, scope, edge, strict ? StratumOf(i, number) : Stratum());
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

CaseDecl Drawer::Near(const CaseDecl& drawn) {
  const std::uint64_t timed = model_.timed.size(), count = timed + model_.checked.size();
  if (count == 0) return drawn;
  const std::uint64_t at = random_.Below(count);
  CaseDecl out = at < timed ? model_.timed[at] : model_.checked[at - timed];
  out.types = drawn.types;
  for (const std::size_t i : plain_) {
    const std::string& name = model_.dims[i].name;
    if (random_.Below(3) == 0) out.dims[name] = drawn.dims.at(name);
  }
  return out;
}

bool IsEmpty(const BoundCase& bound_case) {
  return std::any_of(
      bound_case.tensors.begin(), bound_case.tensors.end(),
      [](const BoundTensor& tensor) { return !tensor.is_null && tensor.elements() == 0; });
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
                                                         const TooLarge& too_large,
                                                         bool near_declared) const {
  const TaskModel& m = model();
  std::vector<BoundCase> out;
  Drawer drawer(m, files(), seed);
  std::map<std::string, int> causes;
  int draws = 0, tries = 0;  // In all, of this case.
  const int wanted = m.held_out + drawer.edges() + drawer.large();
  while (static_cast<int>(out.size()) < wanted) {
    if (draws >= kMaxDraws) {
      const auto worst =
          std::max_element(causes.begin(), causes.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      return absl::InvalidArgumentError(fmt::format(
          "draw held-out sizes: {} draws gave only {} of {} cases; {} of them failed on {}; narrow "
          "the dims' domains or add 'multiple_of'",
          draws, out.size(), wanted, worst->second, worst->first));
    }
    const int number = static_cast<int>(out.size());
    // Every other try is strict; where none fits, the others still find a case. Those of a large
    // value in each dtype are there for that alone, and are given more.
    const bool insists = number >= wanted - drawer.large() && tries < kLargeTries;
    absl::StatusOr<CaseDecl> drawn = drawer.Draw(number, /*strict=*/insists || tries % 2 == 0);
    if (drawn.ok() && near_declared && tries % 4 == 3) drawn = drawer.Near(*drawn);
    ++tries;
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
    if (insists && IsEmpty(*bound)) {
      ++causes["an empty tensor"];
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
    tries = 0;
  }
  return out;
}

}  // namespace fettle
