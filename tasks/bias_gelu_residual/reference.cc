// SPDX-License-Identifier: Apache-2.0
// y = residual + keep * scale * gelu(x + bias), gelu(z) = z * Phi(z), in double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

extern "C" void bias_gelu_residual_ref(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  const double* bias = fettle_input(ref, "bias").values;
  const std::int64_t* keep = fettle_input(ref, "keep").integers;
  const double* residual = fettle_input(ref, "residual").values;
  const double scale = fettle_scalar(ref, "scale");
  fettle_result& y = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(y); ++i) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t from = fettle_row(y, i) * cols + c, to = i * cols + c;
      const double z = x[from] + bias[c];
      const double gelu = 0.5 * z * (1 + std::erf(z * std::sqrt(0.5)));
      y.values[to] = residual[from] + (keep[from] != 0 ? gelu * scale : 0.0);
      // For large negative z the fp32 sum 1 + erf(z) cancels: the error is relative to z, not to
      // gelu(z).
      if (y.magnitude != nullptr) {
        y.magnitude[to] = std::abs(residual[from]) +
                          (keep[from] != 0 ? (std::abs(x[from]) + std::abs(bias[c])) * scale : 0.0);
      }
      if (y.length != nullptr) y.length[to] = 1;
    }
  }
}
