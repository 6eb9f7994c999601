// SPDX-License-Identifier: Apache-2.0
// Gradient of generalized dot-product attention over jagged sequences, in double precision. With s
// = q[m] . k[n], p = scale * act(s) and ds = scale * act'(s) * (dO[m] . v[n]): dq[m] is the sum
// over n of ds * k[n], dk[n] that over m of ds * q[m], and dv[n] that over m of p * dO[m]; keys sum
// over the heads that share them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fettle_reference.h"

namespace {

// Value, first derivative, and a bound of the second.
struct Activation {
  double value, slope, bend;
};

Activation Activate(std::int64_t act, double x) {
  switch (act) {
    case 0:
      return {x, 1, 0};
    case 1: {
      const double below = 0.5 * (1 + std::erf(x * std::sqrt(0.5)));
      return {x * below, below + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI), 1};
    }
    case 2: {
      const double k = 0.7978845608028654, t = std::tanh(k * x * (1 + 0.044715 * x * x));
      return {0.5 * x * (1 + t),
              0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x) + 0.5 * (1 + t), 1};
    }
    case 7: {
      const double sigmoid = 1 / (1 + std::exp(-x));
      return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid)), 1};
    }
    default:
      return {x > 0 ? x * x : 0, x > 0 ? 2 * x : 0, 2};  // 10.
  }
}

// A jagged array: where sequences start, how long they are, and which one each row is in.
struct Jagged {
  std::vector<std::int64_t> starts, lens, sequence_of;
  explicit Jagged(const fettle_dim& given) {
    for (std::int64_t b = 0; b < given.count; ++b) {
      starts.push_back(static_cast<std::int64_t>(sequence_of.size()));
      lens.push_back(given.values[b]);
      sequence_of.insert(sequence_of.end(), static_cast<std::size_t>(given.values[b]), b);
    }
  }
};

// One pair of a query and a key: its weight and its gradient, with the sizes of their terms.
struct Pair {
  double weight, weight_size, ds, ds_size;
};

class Problem {
 public:
  explicit Problem(const fettle_ref* ref)
      : kv_heads(fettle_size(ref, "kv_heads")),
        group(fettle_size(ref, "group")),
        heads(kv_heads * group),
        d(fettle_size(ref, "D")),
        window(fettle_size(ref, "window")),
        queries(fettle_dims(ref, "q_lens")),
        keys(fettle_dims(ref, "k_lens")),
        q(fettle_input(ref, "q").values),
        k(fettle_input(ref, "k").values),
        grad(fettle_input(ref, "grad").values),
        v_(fettle_input(ref, "v").values),
        act_(fettle_size(ref, "ACT")),
        scale_(fettle_scalar(ref, "scale")) {}

  // Where a head's row starts in q and grad, or in k and v.
  std::int64_t QueryAt(std::int64_t row, std::int64_t head) const {
    return (row * heads + head) * d;
  }
  std::int64_t KeyAt(std::int64_t row, std::int64_t head) const {
    return (row * kv_heads + head / group) * d;
  }

  bool Near(std::int64_t m, std::int64_t n) const {
    return window < 0 || std::abs(m - n) <= window;
  }

  Pair At(std::int64_t q_at, std::int64_t k_at) const {
    double score = 0, score_size = 0, back = 0, back_size = 0;
    for (std::int64_t c = 0; c < d; ++c) {
      score += q[q_at + c] * k[k_at + c];
      score_size += std::abs(q[q_at + c] * k[k_at + c]);
      back += grad[q_at + c] * v_[k_at + c];
      back_size += std::abs(grad[q_at + c] * v_[k_at + c]);
    }
    const Activation a = Activate(act_, score);
    const double scale = std::abs(scale_);
    // The bound's term for values rounded to bf16 also has to cover the fp32 error of small
    // products.
    constexpr double kSmall = 0x1p-10;
    return {scale_ * a.value,
            scale * (std::abs(a.value) + kSmall * (1 + std::abs(a.slope)) * score_size),
            scale_ * a.slope * back,
            scale * (std::abs(a.slope * back) + kSmall * ((1 + std::abs(a.slope)) * back_size +
                                                          a.bend * score_size * std::abs(back)))};
  }

  const std::int64_t kv_heads, group, heads, d, window;
  const Jagged queries, keys;
  const double *q, *k, *grad;

 private:
  const double* v_;
  std::int64_t act_;
  double scale_;
};

// A row of results and the sizes of its terms.
class Sums {
 public:
  Sums(fettle_result& result, std::int64_t at, std::int64_t width)
      : result_(result), at_(at), width_(width) {
    for (std::int64_t c = at; c < at + width; ++c) {
      result.values[c] = 0;
      if (result.magnitude != nullptr) result.magnitude[c] = 0;
      if (result.length != nullptr) result.length[c] = static_cast<double>(width);
    }
  }
  void Add(double factor, double factor_size, const double* row) {
    for (std::int64_t c = 0; c < width_; ++c) {
      result_.values[at_ + c] += factor * row[c];
      if (result_.magnitude != nullptr)
        result_.magnitude[at_ + c] += factor_size * std::abs(row[c]);
      if (result_.length != nullptr) result_.length[at_ + c] += 1;
    }
  }

 private:
  fettle_result& result_;
  std::int64_t at_, width_;
};

void QueryGradients(const Problem& p, fettle_result& dq) {
  for (std::int64_t i = 0; i < fettle_row_count(dq); ++i) {
    const std::int64_t row = fettle_row(dq, i);
    const auto b = static_cast<std::size_t>(p.queries.sequence_of[static_cast<std::size_t>(row)]);
    for (std::int64_t head = 0; head < p.heads; ++head) {
      Sums sums(dq, (i * p.heads + head) * p.d, p.d);
      for (std::int64_t n = 0; n < p.keys.lens[b]; ++n) {
        if (!p.Near(row - p.queries.starts[b], n)) continue;
        const std::int64_t k_at = p.KeyAt(p.keys.starts[b] + n, head);
        const Pair pair = p.At(p.QueryAt(row, head), k_at);
        sums.Add(pair.ds, pair.ds_size, p.k + k_at);
      }
    }
  }
}

// dk, or dv with `of_values`.
void KeyGradients(const Problem& p, fettle_result& out, bool of_values) {
  for (std::int64_t i = 0; i < fettle_row_count(out); ++i) {
    const std::int64_t row = fettle_row(out, i);
    const auto b = static_cast<std::size_t>(p.keys.sequence_of[static_cast<std::size_t>(row)]);
    for (std::int64_t kv_head = 0; kv_head < p.kv_heads; ++kv_head) {
      Sums sums(out, (i * p.kv_heads + kv_head) * p.d, p.d);
      for (std::int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head) {
        for (std::int64_t m = 0; m < p.queries.lens[b]; ++m) {
          if (!p.Near(m, row - p.keys.starts[b])) continue;
          const std::int64_t q_at = p.QueryAt(p.queries.starts[b] + m, head);
          const Pair pair = p.At(q_at, p.KeyAt(row, head));
          if (of_values) {
            sums.Add(pair.weight, pair.weight_size, p.grad + q_at);
          } else {
            sums.Add(pair.ds, pair.ds_size, p.q + q_at);
          }
        }
      }
    }
  }
}

}  // namespace

extern "C" void gdpa_backward_ref(fettle_ref* ref) {
  const Problem problem(ref);
  QueryGradients(problem, fettle_output(ref, "dq"));
  KeyGradients(problem, fettle_output(ref, "dk"), /*of_values=*/false);
  KeyGradients(problem, fettle_output(ref, "dv"), /*of_values=*/true);
}
