// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fettle_reference.h"

extern "C" void disguised_ref(fettle_ref* ref) {
  const double* x = fettle_input(ref, "x").values;
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y); ++i) y.values[i] = std::tanh(x[fettle_row(y, i)]);
}
