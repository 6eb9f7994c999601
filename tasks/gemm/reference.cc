// SPDX-License-Identifier: Apache-2.0
// D = alpha A B + beta C in double precision; C is not looked at where beta is 0.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

// Built for wide vectors too: sums of 10^10 products are usual here.
#define FAST __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))

// Adds four products to each sum, and their sizes.
FAST void AddRows(const double* left, const double* right, std::int64_t n, double* __restrict sums,
                  double* __restrict sizes) {
  const double a0 = left[0], a1 = left[1], a2 = left[2], a3 = left[3];
  const double *b1 = right + n, *b2 = b1 + n, *b3 = b2 + n;
  for (std::int64_t j = 0; j < n; ++j) {
    const double p0 = a0 * right[j], p1 = a1 * b1[j], p2 = a2 * b2[j], p3 = a3 * b3[j];
    sums[j] += (p0 + p1) + (p2 + p3);
    sizes[j] += (std::abs(p0) + std::abs(p1)) + (std::abs(p2) + std::abs(p3));
  }
}

FAST void AddRow(double left, const double* right, std::int64_t n, double* __restrict sums,
                 double* __restrict sizes) {
  for (std::int64_t j = 0; j < n; ++j) {
    sums[j] += left * right[j];
    sizes[j] += std::abs(left * right[j]);
  }
}

}  // namespace

extern "C" void gemm_ref(fettle_ref* ref) {
  const std::int64_t n = fettle_size(ref, "n"), k = fettle_size(ref, "k");
  const double* a = fettle_input(ref, "a").values;
  const double* b = fettle_input(ref, "b").values;
  const double* c = fettle_input(ref, "c").values;
  const double alpha = fettle_scalar(ref, "alpha"), beta = fettle_scalar(ref, "beta");
  fettle_result& d = fettle_output(ref, "d");
  const std::int64_t rows = fettle_row_count(d);
  std::vector<double> scratch;
  double* sizes = d.magnitude;
  if (sizes == nullptr) {
    scratch.resize(static_cast<std::size_t>(rows * n));
    sizes = scratch.data();
  }
  for (std::int64_t at = 0; at < rows * n; ++at) {
    d.values[at] = sizes[at] = 0;
    if (d.length != nullptr) d.length[at] = static_cast<double>(k);
  }
  // A few rows of B at a time, which then stay in cache for all rows of A.
  constexpr std::int64_t kDepths = 16;
  for (std::int64_t from = 0; from < k; from += kDepths) {
    const std::int64_t to = std::min(k, from + kDepths);
    for (std::int64_t i = 0; i < rows; ++i) {
      const double* left = a + fettle_row(d, i) * k;
      std::int64_t depth = from;
      for (; depth + 4 <= to; depth += 4) {
        AddRows(left + depth, b + depth * n, n, d.values + i * n, sizes + i * n);
      }
      for (; depth < to; ++depth) {
        AddRow(left[depth], b + depth * n, n, d.values + i * n, sizes + i * n);
      }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double old = beta != 0 ? beta * c[fettle_row(d, i) * n + j] : 0.0;
      double &value = d.values[i * n + j], &size = sizes[i * n + j];
      value = alpha * value + old;
      size = std::abs(alpha) * size + std::abs(old);
    }
  }
}
