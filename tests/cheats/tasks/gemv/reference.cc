#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {
// The rows asked for, one after another.
template <class F>
void EachRow(const fettle_result& r, F body) {
  int64_t k = 0;
  if (r.rows) {
    for (int64_t i = r.row_begin; i < r.row_end; ++i) body(r.rows[i - r.row_begin], k++);
  } else {
    for (int64_t i = r.row_begin; i < r.row_end; ++i) body(i, k++);
  }
}
}  // namespace

extern "C" void gemv_ref(fettle_ref* f) {
  const double* w = f->tensors[0].values;
  const double* x = f->tensors[1].values;
  const int64_t k = f->dims[1].values[0];
  fettle_result& r = f->results[0];
  EachRow(r, [&](int64_t i, int64_t at) {
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < k; ++j) {
      const double term = w[i * k + j] * x[j];
      sum += term;
      squares += term * term;
    }
    r.values[at] = sum;
    if (r.magnitude) r.magnitude[at] = std::max(std::fabs(sum), std::sqrt(squares));
    if (r.length) r.length[at] = static_cast<double>(k);
  });
}
