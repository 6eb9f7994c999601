// SPDX-License-Identifier: Apache-2.0
// Generalized dot-product attention over jagged sequences, in double precision: o[m] = sum over n
// of scale * act(q[m] . k[n]) * v[n], over the n with |m - n| <= window where there is a window.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fettle_reference.h"

namespace {

double Activate(std::int64_t act, double x) {
  switch (act) {
    case 0:
      return x;
    case 1:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case 2:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)));
    case 4:
      return x >= 0 ? x : 0.01 * x;
    case 5:
      return std::max(x, 0.0);
    case 7:
      return x / (1 + std::exp(-x));
    case 9:
      return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    default:
      return x >= 0 ? x * x : 0;  // 10.
  }
}

// Which sequence each row of a jagged array is in, and where the sequences start.
struct Jagged {
  std::vector<std::int64_t> starts, sequence_of;
  explicit Jagged(const fettle_dim& lens) {
    for (std::int64_t b = 0; b < lens.count; ++b) {
      starts.push_back(static_cast<std::int64_t>(sequence_of.size()));
      sequence_of.insert(sequence_of.end(), static_cast<std::size_t>(lens.values[b]), b);
    }
  }
};

}  // namespace

extern "C" void gdpa_forward_ref(fettle_ref* ref) {
  const std::int64_t kv_heads = fettle_size(ref, "kv_heads"), group = fettle_size(ref, "group"),
                     d = fettle_size(ref, "D"), act = fettle_size(ref, "ACT"),
                     window = fettle_size(ref, "window");
  const std::int64_t heads = kv_heads * group;
  const double scale = fettle_scalar(ref, "scale");
  const double* q = fettle_input(ref, "q").values;
  const double* k = fettle_input(ref, "k").values;
  const double* v = fettle_input(ref, "v").values;
  const fettle_dim& k_lens = fettle_dims(ref, "k_lens");
  const Jagged queries(fettle_dims(ref, "q_lens")), keys(k_lens);
  fettle_result& out = fettle_output(ref, "out");
  for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
    const std::int64_t row = fettle_row(out, i);
    const auto b = static_cast<std::size_t>(queries.sequence_of[static_cast<std::size_t>(row)]);
    const std::int64_t m = row - queries.starts[b], count = k_lens.values[b];
    const std::int64_t first =
        window < 0 ? 0 : std::min(count, std::max<std::int64_t>(0, m - window));
    const std::int64_t last = window < 0 ? count : std::min(count, m + window + 1);
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> sums(static_cast<std::size_t>(d)), sizes(static_cast<std::size_t>(d));
      for (std::int64_t n = first; n < last; ++n) {
        const double* left = q + (row * heads + h) * d;
        const std::int64_t at = ((keys.starts[b] + n) * kv_heads + h / group) * d;
        double score = 0, score_size = 0;
        for (std::int64_t c = 0; c < d; ++c) {
          score += left[c] * k[at + c];
          score_size += std::abs(left[c] * k[at + c]);
        }
        const double weight = scale * Activate(act, score);
        // The bound's term for weights rounded to bf16 also has to cover the fp32 error of small
        // scores; the activations' slopes are at most 1.5, but for the square.
        const double slope = act == 10 ? 2 * std::abs(score) : 1.5;
        const double weight_size =
            std::abs(weight) + 0x1p-10 * std::abs(scale) * slope * score_size;
        for (std::int64_t c = 0; c < d; ++c) {
          sums[static_cast<std::size_t>(c)] += weight * v[at + c];
          sizes[static_cast<std::size_t>(c)] += weight_size * std::abs(v[at + c]);
        }
      }
      for (std::int64_t c = 0; c < d; ++c) {
        const std::int64_t to = (i * heads + h) * d + c;
        out.values[to] = sums[static_cast<std::size_t>(c)];
        if (out.magnitude != nullptr) out.magnitude[to] = sizes[static_cast<std::size_t>(c)];
        if (out.length != nullptr) out.length[to] = static_cast<double>(std::max(last - first, d));
      }
    }
  }
}
