// SPDX-License-Identifier: Apache-2.0
#include "device/tensor_layout.h"

#include <algorithm>
#include <cstring>

namespace fettle {
namespace {

using Size = std::size_t;

}  // namespace

std::int64_t DenseBytes(const BoundTensor& tensor) {
  return StorageBytes(tensor.dtype, tensor.elements());
}

std::int64_t LayoutBytes(const BoundTensor& tensor) {
  return StorageBytes(tensor.dtype, tensor.extent());
}

bool IsOutput(const BoundTensor& tensor) {
  return !tensor.is_null && (tensor.role == Role::kOut || tensor.role == Role::kInOut);
}

std::int64_t ElementsOf(const BoundCase& bound_case) {
  std::int64_t elements = 0;
  for (const BoundTensor& tensor : bound_case.tensors) elements += tensor.elements();
  return elements;
}

bool IsDense(const BoundTensor& tensor) {
  std::int64_t expected = 1;
  for (Size axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] > 1 && axis < tensor.strides.size() &&
        tensor.strides[axis] != expected) {
      return false;
    }
    expected *= tensor.shape[axis];
  }
  return true;
}

std::int64_t RowCount(const BoundTensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape[0];
}

std::int64_t RowElements(const BoundTensor& tensor) {
  std::int64_t count = 1;
  for (Size axis = 1; axis < tensor.shape.size(); ++axis) count *= tensor.shape[axis];
  return count;
}

void VisitRuns(const BoundTensor& tensor,
               const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  const std::int64_t total = tensor.elements();
  if (total == 0) return;
  if (IsDense(tensor) || tensor.strides.empty()) {
    visit(0, 0, total);
    return;
  }
  const Size rank = tensor.shape.size();
  const std::int64_t inner = tensor.shape[rank - 1];
  const std::int64_t inner_stride = tensor.strides[rank - 1];
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t dense = 0; dense < total; dense += inner) {
    std::int64_t memory = 0;
    for (Size axis = 0; axis + 1 < rank; ++axis) memory += index[axis] * tensor.strides[axis];
    if (inner_stride == 1 || inner == 1) {
      visit(dense, memory, inner);
    } else {
      for (std::int64_t i = 0; i < inner; ++i) visit(dense + i, memory + i * inner_stride, 1);
    }
    for (Size axis = rank - 1; axis-- > 0;) {
      if (++index[axis] < tensor.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

void ScatterToLayout(const BoundTensor& tensor, std::span<const std::uint8_t> dense,
                     std::span<std::uint8_t> memory) {
  if (IsDense(tensor)) {
    std::copy(dense.begin(), dense.end(), memory.begin());
    return;
  }
  const std::int64_t size = SizeOf(tensor.dtype);
  VisitRuns(tensor, [&](std::int64_t from, std::int64_t to, std::int64_t run) {
    std::memcpy(memory.data() + to * size, dense.data() + from * size,
                static_cast<Size>(run * size));
  });
}

void GatherFromLayout(const BoundTensor& tensor, std::span<const std::uint8_t> memory,
                      std::span<std::uint8_t> dense) {
  if (IsDense(tensor)) {
    std::copy(memory.begin(), memory.end(), dense.begin());
    return;
  }
  const std::int64_t size = SizeOf(tensor.dtype);
  VisitRuns(tensor, [&](std::int64_t to, std::int64_t from, std::int64_t run) {
    std::memcpy(dense.data() + to * size, memory.data() + from * size,
                static_cast<Size>(run * size));
  });
}

std::int64_t CountPaddingChanges(const BoundTensor& tensor, std::span<const std::uint8_t> memory,
                                 std::uint8_t byte) {
  if (IsDense(tensor)) return 0;
  const std::int64_t size = SizeOf(tensor.dtype);
  std::vector<bool> used(memory.size(), false);
  VisitRuns(tensor, [&](std::int64_t, std::int64_t at, std::int64_t run) {
    std::fill_n(used.begin() + at * size, run * size, true);
  });
  std::int64_t changed = 0;
  for (Size i = 0; i < memory.size(); ++i) changed += !used[i] && memory[i] != byte;
  return changed;
}

}  // namespace fettle
