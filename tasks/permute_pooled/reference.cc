// SPDX-License-Identifier: Apache-2.0
// A permutation: element (row, col) of the rows [batch, total] is element (row, col - start) of the
// block [batch, width] that holds column col. Values are copied, so the result is exact.
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

extern "C" void permute_pooled_ref(fettle_ref* ref) {
  const std::int64_t batch = fettle_size(ref, "batch"), total = fettle_size(ref, "total");
  const bool split = fettle_size(ref, "split") != 0;
  const fettle_dim& widths = fettle_dims(ref, "widths");
  const double* from = fettle_input(ref, "from").values;
  std::vector<double> to(static_cast<std::size_t>(batch * total));
  std::int64_t start = 0;
  for (std::int64_t j = 0; j < widths.count; ++j) {
    const std::int64_t width = widths.values[j];
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t in_rows = row * total + start + c;
        const std::int64_t in_blocks = start * batch + row * width + c;
        to[static_cast<std::size_t>(split ? in_blocks : in_rows)] =
            from[split ? in_rows : in_blocks];
      }
    }
    start += width;
  }
  fettle_result& result = fettle_output(ref, "to");
  for (std::int64_t i = 0; i < fettle_row_count(result); ++i) {
    result.values[i] = to[static_cast<std::size_t>(fettle_row(result, i))];
  }
}
