// SPDX-License-Identifier: Apache-2.0
#include "device/case_images.h"

#include <algorithm>

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

absl::Status CopyImage(Device& device, const BoundTensor& tensor, std::size_t index,
                       const InputWriter& write, std::vector<std::uint8_t>& staging,
                       DeviceBuffer& image) {
  const auto dense_size = static_cast<std::size_t>(DenseBytes(tensor));
  if (staging.size() < dense_size) staging.resize(dense_size);
  const std::span<std::uint8_t> dense(staging.data(), dense_size);
  if (!dense.empty()) dense.back() = 0;  // A last half byte is not written.
  FETTLE_RETURN_IF_ERROR(write(index, dense));
  if (IsDense(tensor)) return device.CopyIn(image, 0, dense);
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(LayoutBytes(tensor)),
                                   IsFloat(tensor.dtype) ? kPaddingNanByte : kPaddingByte);
  ScatterToLayout(tensor, dense, memory);
  return device.CopyIn(image, 0, memory);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CaseImages>> CaseImages::Make(
    Device& device, const BoundCase& bound_case, const InputWriter& write,
    std::vector<std::uint8_t>& staging,
    const std::vector<std::optional<std::vector<std::int64_t>>>& touched, const InputDrawer& draw) {
  auto result = std::make_shared<CaseImages>();
  const std::size_t tensors = bound_case.tensors.size();
  result->images_.resize(tensors);
  result->ranges_.resize(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    const std::int64_t size = tensor.is_null ? 0 : LayoutBytes(tensor);
    if (size == 0 || tensor.role == Role::kOut) continue;
    FETTLE_ASSIGN_OR_RETURN(result->images_[i], device.Allocate(size));
    result->size_bytes_ += size;
    bool drawn = false;
    if (draw && IsDense(tensor)) {
      FETTLE_ASSIGN_OR_RETURN(drawn, draw(i, *result->images_[i]));
    }
    if (!drawn) {
      FETTLE_RETURN_IF_ERROR(CopyImage(device, tensor, i, write, staging, *result->images_[i]));
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
