// SPDX-License-Identifier: Apache-2.0
// With xhat = x * rstd and w = dy * gamma: dx = rstd * (w - xhat * mean(w * xhat)) over each row,
// dgamma the column sums of dy * xhat. In double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

namespace {

void RowGradients(fettle_ref* ref) {
  const std::int64_t cols = fettle_size(ref, "cols");
  const double n = static_cast<double>(cols);
  const double* gamma = fettle_input(ref, "gamma").values;
  fettle_result& dx = fettle_output(ref, "dx");
  for (std::int64_t i = 0; i < fettle_row_count(dx); ++i) {
    const std::int64_t row = fettle_row(dx, i);
    const double* x = fettle_input(ref, "x").values + row * cols;
    const double* dy = fettle_input(ref, "dy").values + row * cols;
    const double rstd = fettle_input(ref, "rstd").values[row];
    double along = 0, along_size = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      const double term = dy[c] * gamma[c] * x[c] * rstd / n;
      along += term;
      along_size += std::abs(term);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = i * cols + c;
      const double weighted = dy[c] * gamma[c], xhat = x[c] * rstd;
      dx.values[at] = rstd * (weighted - xhat * along);
      if (dx.magnitude != nullptr) {
        dx.magnitude[at] = std::abs(rstd) * (std::abs(weighted) + std::abs(xhat) * along_size);
      }
      if (dx.length != nullptr) dx.length[at] = n;
    }
  }
}

void ColumnSums(fettle_ref* ref, fettle_result& out) {
  const std::int64_t rows = fettle_size(ref, "rows"), cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  const double* dy = fettle_input(ref, "dy").values;
  const double* rstd = fettle_input(ref, "rstd").values;
  const std::int64_t count = fettle_row_count(out);
  for (std::int64_t i = 0; i < count; ++i) {
    out.values[i] = 0;
    if (out.magnitude != nullptr) out.magnitude[i] = 0;
    if (out.length != nullptr) out.length[i] = static_cast<double>(rows);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = row * cols + fettle_row(out, i);
      const double term = dy[at] * x[at] * rstd[row];
      out.values[i] += term;
      if (out.magnitude != nullptr) out.magnitude[i] += std::abs(term);
    }
  }
}

}  // namespace

extern "C" void rmsnorm_backward_ref(fettle_ref* ref) {
  RowGradients(ref);
  ColumnSums(ref, fettle_output(ref, "dgamma"));
}
