// SPDX-License-Identifier: Apache-2.0
#include "device/case_images.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"

namespace fettle {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Byte ranges of the given rows in memory, neighbours merged.
Ranges RowRanges(const BoundTensor& tensor, std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::int64_t row = RowElements(tensor);
  const std::int64_t size = SizeOf(tensor.dtype);
  const std::int64_t stride = tensor.strides.empty() ? row : tensor.strides[0];
  BoundTensor one = tensor;
  one.shape.erase(one.shape.begin());
  if (!one.strides.empty()) one.strides.erase(one.strides.begin());
  Ranges ranges;
  for (const std::int64_t r : rows) {
    if (r < 0 || r >= RowCount(tensor)) continue;
    const std::pair<std::int64_t, std::int64_t> range{r * stride * size, one.extent() * size};
    if (!ranges.empty() && ranges.back().first + ranges.back().second == range.first) {
      ranges.back().second += range.second;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CaseImages>> CaseImages::Make(
    Device& device, const BoundCase& bound_case, const CaseInputs& inputs,
    const std::vector<std::optional<std::vector<std::int64_t>>>& touched) {
  if (inputs.size() != bound_case.tensors.size()) {
    return absl::InvalidArgumentError(fmt::format("inputs for {} tensors, the case has {}",
                                                  inputs.size(), bound_case.tensors.size()));
  }
  auto result = std::make_shared<CaseImages>();
  result->images_.resize(inputs.size());
  result->ranges_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    const std::int64_t size = tensor.is_null ? 0 : LayoutBytes(tensor);
    if (size == 0 || tensor.role == Role::kOut) continue;
    FETTLE_CHECK(static_cast<std::int64_t>(inputs[i].size()) == DenseBytes(tensor));
    FETTLE_ASSIGN_OR_RETURN(result->images_[i], device.Allocate(size));
    result->size_bytes_ += size;
    if (IsDense(tensor)) {
      FETTLE_RETURN_IF_ERROR(device.CopyIn(*result->images_[i], 0, inputs[i]));
    } else {
      std::vector<std::uint8_t> memory(static_cast<std::size_t>(size),
                                       IsFloat(tensor.dtype) ? kPaddingNanByte : kPaddingByte);
      ScatterToLayout(tensor, inputs[i], memory);
      FETTLE_RETURN_IF_ERROR(device.CopyIn(*result->images_[i], 0, memory));
    }
    if (tensor.role != Role::kInOut) continue;
    if (i < touched.size() && touched[i] && !tensor.shape.empty()) {
      result->ranges_[i] = RowRanges(tensor, *touched[i]);
    } else {
      result->ranges_[i].emplace_back(0, size);
    }
  }
  return std::shared_ptr<const CaseImages>(std::move(result));
}

}  // namespace fettle
