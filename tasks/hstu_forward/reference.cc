// SPDX-License-Identifier: Apache-2.0
// HSTU attention over jagged sequences, in double precision: p[m, n] = mask * s * sigmoid(s) /
// max_len with s = alpha * q[m] . k[n], and o[m] = sum over n of p[m, n] * v[n].
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

struct Sequence {
  std::int64_t start, length, targets;
};

struct Rules {
  std::int64_t contextual, window, full;
};

// Whether row m sees key n.
bool Sees(const Rules& rules, const Sequence& sequence, std::int64_t m, std::int64_t n) {
  std::int64_t last = sequence.length, r = m, q = n;
  if (rules.contextual > 0) {
    last = sequence.length - rules.contextual + 1;
    r = std::max<std::int64_t>(m - rules.contextual + 1, 0);
    q = std::max<std::int64_t>(n - rules.contextual + 1, 0);
  }
  last -= sequence.targets;
  r = std::min(r, last);
  q = std::min(q, last);
  bool sees = m == n || r > q;
  if (rules.window > 0 && r - q > rules.window && !(rules.full > 0 && r >= last - rules.full))
    sees = false;
  return sees || (rules.contextual > 0 && r == 0 && q < last);
}

}  // namespace

extern "C" void hstu_forward_ref(fettle_ref* ref) {
  const std::int64_t heads = fettle_size(ref, "heads"), d = fettle_size(ref, "D"),
                     v = fettle_size(ref, "V");
  const double max_len = static_cast<double>(fettle_size(ref, "max_len"));
  const Rules rules = {fettle_size(ref, "contextual"), fettle_size(ref, "window"),
                       fettle_size(ref, "full")};
  const bool has_targets = fettle_size(ref, "has_targets") != 0;
  const double alpha = fettle_scalar(ref, "alpha");
  const double* q = fettle_input(ref, "q").values;
  const double* k = fettle_input(ref, "k").values;
  const double* values = fettle_input(ref, "v").values;
  const fettle_dim &lens = fettle_dims(ref, "lens"), &targets = fettle_dims(ref, "targets");
  std::vector<Sequence> of_row;  // The sequence of each row of the jagged arrays.
  for (std::int64_t b = 0; b < lens.count; ++b) {
    const Sequence one = {static_cast<std::int64_t>(of_row.size()), lens.values[b],
                          has_targets ? targets.values[b] : 0};
    of_row.insert(of_row.end(), static_cast<std::size_t>(one.length), one);
  }
  fettle_result& out = fettle_output(ref, "out");
  for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
    const std::int64_t row = fettle_row(out, i);
    const Sequence& sequence = of_row[static_cast<std::size_t>(row)];
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t to = (i * heads + h) * v;
      std::vector<double> sums(static_cast<std::size_t>(v)), sizes(static_cast<std::size_t>(v));
      double length = 0;
      for (std::int64_t n = 0; n < sequence.length; ++n) {
        if (!Sees(rules, sequence, row - sequence.start, n)) continue;
        const double* left = q + (row * heads + h) * d;
        const double* right = k + ((sequence.start + n) * heads + h) * d;
        double score = 0, score_size = 0;
        for (std::int64_t c = 0; c < d; ++c) {
          score += left[c] * right[c];
          score_size += std::abs(left[c] * right[c]);
        }
        score *= alpha;
        score_size *= std::abs(alpha);
        const double weight = score / (1 + std::exp(-score)) / max_len;
        // The bound's term for weights rounded to bf16 also has to cover the fp32 error of small
        // scores.
        const double weight_size = std::abs(weight) + 0x1p-10 * score_size / max_len;
        const double* from = values + ((sequence.start + n) * heads + h) * v;
        for (std::int64_t c = 0; c < v; ++c) {
          sums[static_cast<std::size_t>(c)] += weight * from[c];
          sizes[static_cast<std::size_t>(c)] += weight_size * std::abs(from[c]);
        }
        ++length;
      }
      for (std::int64_t c = 0; c < v; ++c) {
        out.values[to + c] = sums[static_cast<std::size_t>(c)];
        if (out.magnitude != nullptr) out.magnitude[to + c] = sizes[static_cast<std::size_t>(c)];
        if (out.length != nullptr) out.length[to + c] = std::max(length, static_cast<double>(d));
      }
    }
  }
}
