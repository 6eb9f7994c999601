// SPDX-License-Identifier: Apache-2.0
#include "core/bound.h"

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fettle {

std::int64_t BoundTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::int64_t BoundTensor::extent() const {
  if (elements() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
  return last + 1;
}

std::int64_t CaseBytes(const BoundCase& bound_case) {
  std::int64_t total = 0;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (__builtin_add_overflow(total, StorageBytes(tensor.dtype, tensor.extent()), &total)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return total;
}

std::string BoundCase::Describe() const {
  std::string out;
  const auto add = [&](const std::string& part) {
    if (!out.empty()) out += ' ';
    out += part;
  };
  for (const auto& dim : dims) {
    if (!dim.is_list) {
      add(fmt::format("{}={}", dim.name, dim.values.front()));
    } else if (dim.values.size() <= 8) {
      add(fmt::format("{}=[{}]", dim.name, fmt::join(dim.values, ",")));
    } else {
      std::int64_t sum = 0;
      for (const std::int64_t value : dim.values) sum += value;
      add(fmt::format("{}=[{} entries, sum {}]", dim.name, dim.values.size(), sum));
    }
  }
  for (const auto& [family, dtype] : types) add(fmt::format("{}={}", family, DTypeName(dtype)));
  return out;
}

}  // namespace fettle
