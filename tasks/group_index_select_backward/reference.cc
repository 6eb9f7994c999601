// SPDX-License-Identifier: Apache-2.0
// grad_in[g][r] is the sum of grad_out[g][i] over the i with indices[g][i] == r, in double
// precision.
#include <cmath>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

void AddMember(const fettle_ref* ref, std::int64_t g, std::int64_t width, fettle_result& out) {
  const std::int64_t rows = fettle_size(ref, "rows"),
                     height = fettle_dims(ref, "heights").values[g];
  const double* from = fettle_input(ref, "grad_out", g).values;
  const std::int64_t* indices = fettle_input(ref, "indices", g).integers;
  std::vector<std::int64_t> place(static_cast<std::size_t>(height), -1);  // Of a row in the result.
  for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
    place[static_cast<std::size_t>(fettle_row(out, i))] = i;
    for (std::int64_t at = i * width; at < (i + 1) * width; ++at) {
      out.values[at] = 0;
      if (out.magnitude != nullptr) out.magnitude[at] = 0;
      if (out.length != nullptr) out.length[at] = 0;
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t to = place[static_cast<std::size_t>(indices[i])];
    if (to < 0) continue;
    for (std::int64_t c = 0; c < width; ++c) {
      const double term = from[i * width + c];
      const std::int64_t at = to * width + c;
      out.values[at] += term;
      if (out.magnitude != nullptr) out.magnitude[at] += std::abs(term);
      if (out.length != nullptr) out.length[at] += 1;
    }
  }
}

}  // namespace

extern "C" void group_index_select_backward_ref(fettle_ref* ref) {
  const fettle_dim& widths = fettle_dims(ref, "widths");
  for (std::int64_t g = 0; g < widths.count; ++g) {
    AddMember(ref, g, widths.values[g], fettle_output(ref, "grad_in", g));
  }
}
