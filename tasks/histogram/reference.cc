// SPDX-License-Identifier: Apache-2.0
// How often each bin occurs in `data`.
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

extern "C" void histogram_ref(fettle_ref* ref) {
  const fettle_tensor& data = fettle_input(ref, "data");
  std::vector<double> counts(static_cast<std::size_t>(fettle_size(ref, "bins")), 0.0);
  for (std::int64_t i = 0; i < data.count; ++i) {
    counts[static_cast<std::size_t>(data.integers[i])] += 1;
  }
  fettle_result& result = fettle_output(ref, "counts");
  for (std::int64_t i = 0; i < fettle_row_count(result); ++i) {
    result.values[i] = counts[static_cast<std::size_t>(fettle_row(result, i))];
  }
}
