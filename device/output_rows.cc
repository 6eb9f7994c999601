// SPDX-License-Identifier: Apache-2.0
#include "device/output_rows.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"

namespace fettle {
namespace {

using Bytes = std::vector<std::uint8_t>;

// More rows than these are read with the rest and chosen here.
constexpr std::size_t kMostGathered = 8192;

// [first, last) rows that follow one another.
std::vector<std::pair<std::int64_t, std::int64_t>> Runs(std::span<const std::int64_t> rows) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const std::int64_t row : rows) {
    if (!runs.empty() && runs.back().second == row) {
      ++runs.back().second;
    } else {
      runs.emplace_back(row, row + 1);
    }
  }
  return runs;
}

absl::StatusOr<Bytes> ReadAll(Device& device, const BoundTensor& tensor, const DeviceBuffer& buffer,
                              std::int64_t offset) {
  Bytes memory(static_cast<std::size_t>(LayoutBytes(tensor)));
  FETTLE_RETURN_IF_ERROR(device.CopyOut(buffer, offset, memory));
  if (IsDense(tensor)) return memory;
  Bytes dense(static_cast<std::size_t>(DenseBytes(tensor)));
  GatherFromLayout(tensor, memory, dense);
  return dense;
}

}  // namespace

absl::StatusOr<Bytes> ReadRows(Device& device, const BoundTensor& tensor,
                               const DeviceBuffer& buffer, std::int64_t offset,
                               std::span<const std::int64_t> rows) {
  if (rows.empty()) return ReadAll(device, tensor, buffer, offset);
  if (rows.front() < 0 || rows.back() >= RowCount(tensor)) {
    return absl::InvalidArgumentError(fmt::format("rows {} to {} of {}, which has {}", rows.front(),
                                                  rows.back(), tensor.name, RowCount(tensor)));
  }
  const std::int64_t row = StorageBytes(tensor.dtype, RowElements(tensor));
  const auto runs = Runs(rows);
  Bytes packed(static_cast<std::size_t>(row) * rows.size());
  if (!IsDense(tensor) || runs.size() > kMostGathered) {
    FETTLE_ASSIGN_OR_RETURN(const Bytes dense, ReadAll(device, tensor, buffer, offset));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(packed.data() + i * static_cast<std::size_t>(row), dense.data() + rows[i] * row,
                  static_cast<std::size_t>(row));
    }
    return packed;
  }
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBuffer> gathered,
                          device.Allocate(static_cast<std::int64_t>(packed.size())));
  std::int64_t at = 0;
  for (const auto& [first, last] : runs) {
    const std::int64_t size = (last - first) * row;
    FETTLE_RETURN_IF_ERROR(device.CopyDevice(*gathered, at, buffer, offset + first * row, size));
    at += size;
  }
  FETTLE_RETURN_IF_ERROR(device.CopyOut(*gathered, 0, packed));
  return packed;
}

}  // namespace fettle
