// SPDX-License-Identifier: Apache-2.0
// out[b, columns of t] = scale * sum of w_l * W_t[index_l] over the bag (t, b), scale 1 / L for
// means, in double precision. An empty bag gives zeros.
#include <cmath>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

struct Bags {
  const double* weights;
  const std::int64_t* indices;
  const std::int64_t* offsets;
  const double* sample_weights;  // Or null: all 1.
  bool mean;
};

// Adds the bag's rows, `width` values each, and their sizes. Gives the factor for both.
double AddBag(const Bags& bags, std::int64_t bag, const double* table, std::int64_t width,
              double* sums, double* sizes) {
  const std::int64_t start = bags.offsets[bag], end = bags.offsets[bag + 1];
  for (std::int64_t i = start; i < end; ++i) {
    const double weight = bags.sample_weights == nullptr ? 1.0 : bags.sample_weights[i];
    const double* row = table + bags.indices[i] * width;
    for (std::int64_t c = 0; c < width; ++c) {
      sums[c] += weight * row[c];
      if (sizes != nullptr) sizes[c] += std::abs(weight * row[c]);
    }
  }
  return bags.mean && end > start ? 1.0 / static_cast<double>(end - start) : 1.0;
}

}  // namespace

extern "C" void tbe_forward_ref(fettle_ref* ref) {
  const std::int64_t batch = fettle_size(ref, "batch"), columns = fettle_size(ref, "columns"),
                     rows = fettle_size(ref, "rows");
  const fettle_dim& widths = fettle_dims(ref, "widths");
  const bool weighted = fettle_size(ref, "weighted") != 0;
  const Bags bags = {fettle_input(ref, "weights").values, fettle_input(ref, "indices").integers,
                     fettle_input(ref, "offsets").integers,
                     weighted ? fettle_input(ref, "sample_weights").values : nullptr,
                     fettle_size(ref, "mean") != 0};
  fettle_result& out = fettle_output(ref, "out");
  for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
    std::int64_t column = 0;
    for (std::int64_t t = 0; t < widths.count; ++t) {
      const std::int64_t width = widths.values[t], at = i * columns + column;
      const std::int64_t bag = t * batch + fettle_row(out, i);
      double* sums = out.values + at;
      double* sizes = out.magnitude == nullptr ? nullptr : out.magnitude + at;
      for (std::int64_t c = 0; c < width; ++c) {
        sums[c] = 0;
        if (sizes != nullptr) sizes[c] = 0;
        if (out.length != nullptr) {
          out.length[at + c] = static_cast<double>(bags.offsets[bag + 1] - bags.offsets[bag]);
        }
      }
      const double scale = AddBag(bags, bag, bags.weights + rows * column, width, sums, sizes);
      for (std::int64_t c = 0; c < width; ++c) {
        sums[c] *= scale;
        if (sizes != nullptr) sizes[c] *= scale;
      }
      column += width;
    }
  }
}
