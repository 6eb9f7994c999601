// SPDX-License-Identifier: Apache-2.0
// rstd = 1 / sqrt(mean of x^2 + eps) and y = x * rstd * gamma over each row, in double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

namespace {

double Scale(const double* row, std::int64_t cols, double eps) {
  double squares = 0;
  for (std::int64_t c = 0; c < cols; ++c) squares += row[c] * row[c];
  return 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
}

}  // namespace

extern "C" void rmsnorm_ref(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  const double* gamma = fettle_input(ref, "gamma").values;
  const double eps = fettle_scalar(ref, "eps");
  fettle_result& y = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(y); ++i) {
    const double* row = x + fettle_row(y, i) * cols;
    const double scale = Scale(row, cols, eps);
    for (std::int64_t c = 0; c < cols; ++c) y.values[i * cols + c] = row[c] * scale * gamma[c];
  }
  fettle_result& rstd = fettle_output(ref, "rstd");
  for (std::int64_t i = 0; i < fettle_row_count(rstd); ++i) {
    rstd.values[i] = Scale(x + fettle_row(rstd, i) * cols, cols, eps);
  }
}
