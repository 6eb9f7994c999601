// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "fettle_reference.h"

extern "C" void scale_ref(fettle_ref* ref) {
  const double* x = fettle_input(ref, "x").values;
  fettle_result& y = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(y); ++i) y.values[i] = 2 * x[fettle_row(y, i)];
}
