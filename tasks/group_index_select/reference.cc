// SPDX-License-Identifier: Apache-2.0
// out[g][i] = in[g][indices[g][i]]. Values are copied, so the result is exact.
#include <cstdint>

#include "fettle_reference.h"

extern "C" void group_index_select_ref(fettle_ref* ref) {
  const std::int64_t members = fettle_size(ref, "members");
  const fettle_dim& widths = fettle_dims(ref, "widths");
  for (std::int64_t g = 0; g < members; ++g) {
    const std::int64_t width = widths.values[g];
    const double* in = fettle_input(ref, "in", g).values;
    const std::int64_t* indices = fettle_input(ref, "indices", g).integers;
    fettle_result& out = fettle_output(ref, "out", g);
    for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
      const double* row = in + indices[fettle_row(out, i)] * width;
      for (std::int64_t c = 0; c < width; ++c) out.values[i * width + c] = row[c];
    }
  }
}
