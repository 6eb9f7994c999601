// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + eps) * gamma + beta over each row, in double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

extern "C" void layernorm_ref(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  const double* gamma = fettle_input(ref, "gamma").values;
  const double* beta = fettle_input(ref, "beta").values;
  const double eps = fettle_scalar(ref, "eps");
  fettle_result& y = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(y); ++i) {
    const double* row = x + fettle_row(y, i) * cols;
    double sum = 0, squares = 0, size = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      sum += row[c];
      size += std::abs(row[c]);
    }
    const double mean = sum / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) squares += (row[c] - mean) * (row[c] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
    const double mean_size = size / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = i * cols + c;
      y.values[at] = (row[c] - mean) * scale * gamma[c] + beta[c];
      if (y.magnitude != nullptr) {
        y.magnitude[at] =
            (std::abs(row[c]) + mean_size) * scale * std::abs(gamma[c]) + std::abs(beta[c]);
      }
      if (y.length != nullptr) y.length[at] = static_cast<double>(cols);
    }
  }
}
