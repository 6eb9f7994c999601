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

extern "C" void softmax_ref(fettle_ref* f) {
  const double* x = f->tensors[0].values;
  const int64_t cols = f->dims[1].values[0];
  fettle_result& r = f->results[0];
  EachRow(r, [&](int64_t i, int64_t k) {
    const double* in = x + i * cols;
    const double top = *std::max_element(in, in + cols);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(in[c] - top);
    for (int64_t c = 0; c < cols; ++c) {
      r.values[k * cols + c] = std::exp(in[c] - top) / sum;
      // Each value carries the relative error of one exponential of a rounded difference.
      if (r.magnitude)
        r.magnitude[k * cols + c] = r.values[k * cols + c] * (1 + std::fabs(in[c] - top));
      if (r.length) r.length[k * cols + c] = static_cast<double>(cols);
    }
  });
}
