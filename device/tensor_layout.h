// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/bound.h"

namespace fettle {

// Between the dense row-major bytes of a tensor and its bytes in memory, where strides may leave
// padding between elements. Layouts of dtypes that share a byte (f4e2m1x2) are dense.

// Bytes of the tensor dense, and as it lies in memory (0 when empty).
std::int64_t DenseBytes(const BoundTensor& tensor);
std::int64_t LayoutBytes(const BoundTensor& tensor);
bool IsDense(const BoundTensor& tensor);

// Whether the operator writes it (out and inout, not null).
bool IsOutput(const BoundTensor& tensor);
// Of all tensors of the case together.
std::int64_t ElementsOf(const BoundCase& bound_case);

// Elements of one row (the first axis); 1 for a scalar tensor.
std::int64_t RowElements(const BoundTensor& tensor);
std::int64_t RowCount(const BoundTensor& tensor);

// Calls `visit(dense element, memory element, run)` for every maximal run along the last axis that
// is contiguous in memory, in dense order.
void VisitRuns(const BoundTensor& tensor,
               const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit);

// `memory` holds LayoutBytes, `dense` DenseBytes. Scatter leaves padding as it is.
void ScatterToLayout(const BoundTensor& tensor, std::span<const std::uint8_t> dense,
                     std::span<std::uint8_t> memory);
void GatherFromLayout(const BoundTensor& tensor, std::span<const std::uint8_t> memory,
                      std::span<std::uint8_t> dense);

// Bytes of padding in `memory` that are not `byte`.
std::int64_t CountPaddingChanges(const BoundTensor& tensor, std::span<const std::uint8_t> memory,
                                 std::uint8_t byte);

}  // namespace fettle
