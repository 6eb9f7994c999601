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

extern "C" void quantize_ref(fettle_ref* f) {
  const double* x = f->tensors[0].values;
  const int64_t cols = f->dims[1].values[0];
  // The codes follow from the scale as rounded to float, so both are made in float.
  auto step = [&](int64_t i) {
    float m = 0;
    for (int64_t c = 0; c < cols; ++c)
      m = std::max(m, std::fabs(static_cast<float>(x[i * cols + c])));
    return m > 0 ? m / 127.f : 1.f;
  };
  for (int32_t o = 0; o < f->result_count; ++o) {
    fettle_result& r = f->results[o];
    const bool codes = r.name[0] == 'q';
    EachRow(r, [&](int64_t i, int64_t k) {
      const float s = step(i);
      if (!codes) {
        r.values[k] = s;
        return;
      }
      for (int64_t c = 0; c < cols; ++c)
        r.values[k * cols + c] = std::rint(static_cast<float>(x[i * cols + c]) / s);
    });
  }
}
