// SPDX-License-Identifier: Apache-2.0
#include "verifier/failure_class.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

namespace fettle {
namespace {

std::optional<std::int64_t> DimValue(const BoundCase& bound_case, const std::string& name) {
  for (const BoundDim& dim : bound_case.dims) {
    if (dim.name == name && !dim.is_list && dim.values.size() == 1) return dim.values[0];
  }
  return std::nullopt;
}

std::optional<DType> TypeOf(const BoundCase& bound_case, const std::string& name) {
  for (const auto& [family, dtype] : bound_case.types) {
    if (family == name) return dtype;
  }
  return std::nullopt;
}

// Whether `holds` is true of no passing case's value of the dim.
bool Distinguishes(const std::string& dim, const std::vector<BoundCase>& passing,
                   const std::function<bool(std::int64_t)>& holds) {
  return std::none_of(passing.begin(), passing.end(), [&](const BoundCase& one) {
    const auto value = DimValue(one, dim);
    return value && holds(*value);
  });
}

std::string SmallClass(const BoundDim& dim, const std::vector<BoundCase>& passing) {
  const std::int64_t value = dim.values[0];
  for (const std::int64_t small : {0, 1}) {
    if (value == small &&
        Distinguishes(dim.name, passing, [&](std::int64_t other) { return other == small; })) {
      return fmt::format("{} = {}", dim.name, small);
    }
  }
  for (std::int64_t k = 2; k <= 256; k *= 2) {
    if (value % k != 0 &&
        Distinguishes(dim.name, passing, [&](std::int64_t other) { return other % k != 0; })) {
      return fmt::format("{} not a multiple of {}", dim.name, k);
    }
  }
  return "";
}

std::string SizeClass(const BoundDim& dim, const std::vector<BoundCase>& passing) {
  const std::int64_t value = dim.values[0];
  if (Distinguishes(dim.name, passing, [&](std::int64_t other) { return other >= value; })) {
    return dim.name + " larger than in every case that passed";
  }
  if (Distinguishes(dim.name, passing, [&](std::int64_t other) { return other <= value; })) {
    return dim.name + " smaller than in every case that passed";
  }
  return "";
}

}  // namespace

std::string FailureClass(const BoundCase& failing, const std::vector<BoundCase>& passing) {
  const std::string unknown = "no single dim or dtype explains it";
  if (passing.empty()) return unknown;
  for (const auto& [family, dtype] : failing.types) {
    const bool passed = std::any_of(passing.begin(), passing.end(), [&](const BoundCase& one) {
      return TypeOf(one, family) == dtype;
    });
    if (!passed) return fmt::format("{} = {}", family, std::string(DTypeName(dtype)));
  }
  for (const auto classify : {&SmallClass, &SizeClass}) {
    for (const BoundDim& dim : failing.dims) {
      if (dim.is_list || dim.values.size() != 1) continue;
      if (const std::string found = classify(dim, passing); !found.empty()) return found;
    }
  }
  return unknown;
}

}  // namespace fettle
