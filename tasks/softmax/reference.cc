// SPDX-License-Identifier: Apache-2.0
// y = exp(x - max) / sum of exp(x - max) over each row, in double precision. A row of -inf, like
// one that holds a NaN or +inf, gives NaN.
#include <cmath>
#include <cstdint>
#include <limits>

#include "fettle_reference.h"

extern "C" void softmax_ref(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  fettle_result& y = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(y); ++i) {
    const double* row = x + fettle_row(y, i) * cols;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) top = std::fmax(top, row[c]);
    for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(row[c] - top);
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = i * cols + c;
      y.values[at] = std::exp(row[c] - top) / sum;
      // The difference is rounded before the exponential, whose relative error it becomes.
      // Exponentials below fp32's smallest normal number, 2^-126, may be lost.
      if (y.magnitude != nullptr) {
        y.magnitude[at] = y.values[at] * (1 + std::abs(row[c] - top)) + 0x1p-104;
      }
      if (y.length != nullptr) y.length[at] = static_cast<double>(cols);
    }
  }
}
