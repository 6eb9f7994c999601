// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "core/dtype.h"

namespace fettle {

// A parsed NumPy .npy file (versions 1 to 3, little-endian, C order). `data` points into the text
// that was parsed.
struct NpyArray {
  char kind = 'f';  // NumPy's: f, i, u, b, V.
  int item_bytes = 4;
  std::vector<std::int64_t> shape;
  std::string_view data;

  std::int64_t elements() const;
  double AsDouble(std::int64_t index) const;         // Kinds f (f2, f4, f8), i, u, b.
  std::int64_t AsInteger(std::int64_t index) const;  // Kinds i, u, b.
};

// kInvalidArgument: not an .npy file, Fortran order, big-endian, or shorter than its shape.
absl::StatusOr<NpyArray> ParseNpy(std::string_view text);

// The array as densely packed elements of `dtype`: the same bytes where the item is exactly this
// dtype (or raw bits of it: u1/u2/V for dtypes that NumPy lacks), else each value rounded.
// kInvalidArgument where the kinds do not go together.
absl::StatusOr<std::vector<std::uint8_t>> NpyToDType(const NpyArray& array, DType dtype);

}  // namespace fettle
