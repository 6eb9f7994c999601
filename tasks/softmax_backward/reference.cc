// SPDX-License-Identifier: Apache-2.0
// dx = y * (dy - sum of y * dy) over each row, in double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

extern "C" void softmax_backward_ref(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double* y = fettle_input(ref, "y").values;
  const double* dy = fettle_input(ref, "dy").values;
  fettle_result& dx = fettle_output(ref, "dx");
  for (std::int64_t i = 0; i < fettle_row_count(dx); ++i) {
    const std::int64_t start = fettle_row(dx, i) * cols;
    double sum = 0, size = 0;
    for (std::int64_t c = start; c < start + cols; ++c) {
      sum += y[c] * dy[c];
      size += std::abs(y[c] * dy[c]);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = i * cols + c;
      dx.values[at] = y[start + c] * (dy[start + c] - sum);
      if (dx.magnitude != nullptr) {
        dx.magnitude[at] = std::abs(y[start + c]) * (std::abs(dy[start + c]) + size);
      }
      if (dx.length != nullptr) dx.length[at] = static_cast<double>(cols);
    }
  }
}
