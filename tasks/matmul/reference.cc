// SPDX-License-Identifier: Apache-2.0
// C = A B in double precision.
#include <cmath>
#include <cstdint>

#include "fettle_reference.h"

extern "C" void matmul_ref(fettle_ref* ref) {
  const std::int64_t n = fettle_size(ref, "n"), k = fettle_size(ref, "k");
  const double* a = fettle_input(ref, "a").values;
  const double* b = fettle_input(ref, "b").values;
  fettle_result& c = fettle_output(ref, "c");
  for (std::int64_t i = 0; i < fettle_row_count(c); ++i) {
    const double* row = a + fettle_row(c, i) * k;
    for (std::int64_t col = 0; col < n; ++col) {
      c.values[i * n + col] = 0;
      if (c.magnitude != nullptr) c.magnitude[i * n + col] = 0;
      if (c.length != nullptr) c.length[i * n + col] = static_cast<double>(k);
    }
    for (std::int64_t depth = 0; depth < k; ++depth) {
      const double left = row[depth];
      const double* right = b + depth * n;
      for (std::int64_t col = 0; col < n; ++col) {
        const double term = left * right[col];
        c.values[i * n + col] += term;
        if (c.magnitude != nullptr) c.magnitude[i * n + col] += std::abs(term);
      }
    }
  }
}
