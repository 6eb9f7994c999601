// SPDX-License-Identifier: Apache-2.0
#include "verifier/poison.h"

#include <algorithm>

#include <fmt/format.h>

#include "verifier/output_judge.h"

namespace fettle {
namespace {

bool Holds(const std::vector<std::uint8_t>& bytes, std::int64_t element, std::int64_t size,
           std::uint8_t poison) {
  const auto begin = bytes.begin() + element * size;
  return std::all_of(begin, begin + size, [poison](std::uint8_t byte) { return byte == poison; });
}

}  // namespace

std::optional<std::string> FindSurvivingPoison(const BoundCase& bound_case,
                                               const std::vector<std::vector<std::uint8_t>>& a,
                                               const std::vector<std::vector<std::uint8_t>>& b) {
  const std::vector<std::int64_t> indices = OutputTensors(bound_case);
  for (std::size_t i = 0; i < indices.size() && i < a.size() && i < b.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[static_cast<std::size_t>(indices[i])];
    if (tensor.role != Role::kOut || a[i].size() != b[i].size()) continue;
    const std::int64_t size = SizeOf(tensor.dtype);
    const auto count = static_cast<std::int64_t>(a[i].size()) / size;
    std::int64_t survived = 0, first = -1;
    for (std::int64_t e = 0; e < count; ++e) {
      if (!Holds(a[i], e, size, kPoisonA) || !Holds(b[i], e, size, kPoisonB)) continue;
      if (survived++ == 0) first = e;
    }
    if (survived > 0) {
      return fmt::format("{}: {} of {} elements were not written, the first is {}", tensor.name,
                         survived, count, first);
    }
  }
  return std::nullopt;
}

}  // namespace fettle
