// SPDX-License-Identifier: Apache-2.0
// With xhat = (x - mean) * rstd and w = dy * gamma: dx = rstd * (w - mean(w) - xhat * mean(w *
// xhat)) over each row, dgamma the column sums of dy * xhat, dbeta those of dy. In double
// precision.
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
    const double mean = fettle_input(ref, "mean").values[row];
    const double rstd = fettle_input(ref, "rstd").values[row];
    double sum = 0, sum_size = 0, along = 0, along_size = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      const double weighted = dy[c] * gamma[c], xhat = (x[c] - mean) * rstd;
      sum += weighted / n;
      sum_size += std::abs(weighted) / n;
      along += weighted * xhat / n;
      along_size += std::abs(weighted * rstd) * (std::abs(x[c]) + std::abs(mean)) / n;
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = i * cols + c;
      const double weighted = dy[c] * gamma[c], xhat = (x[c] - mean) * rstd;
      dx.values[at] = rstd * (weighted - sum - xhat * along);
      if (dx.magnitude != nullptr) {
        const double xhat_size = (std::abs(x[c]) + std::abs(mean)) * std::abs(rstd);
        dx.magnitude[at] =
            std::abs(rstd) * (std::abs(weighted) + sum_size + xhat_size * along_size);
      }
      if (dx.length != nullptr) dx.length[at] = n;
    }
  }
}

// Column sums of dy * xhat, or of dy alone.
void ColumnSums(fettle_ref* ref, fettle_result& out, bool scales) {
  const std::int64_t rows = fettle_size(ref, "rows"), cols = fettle_size(ref, "cols");
  const double* x = fettle_input(ref, "x").values;
  const double* dy = fettle_input(ref, "dy").values;
  const double* mean = fettle_input(ref, "mean").values;
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
      out.values[i] += scales ? dy[at] * (x[at] - mean[row]) * rstd[row] : dy[at];
      if (out.magnitude != nullptr) {
        out.magnitude[i] +=
            std::abs(dy[at]) *
            (scales ? (std::abs(x[at]) + std::abs(mean[row])) * std::abs(rstd[row]) : 1.0);
      }
    }
  }
}

}  // namespace

extern "C" void layernorm_backward_ref(fettle_ref* ref) {
  RowGradients(ref);
  ColumnSums(ref, fettle_output(ref, "dgamma"), /*scales=*/true);
  ColumnSums(ref, fettle_output(ref, "dbeta"), /*scales=*/false);
}
