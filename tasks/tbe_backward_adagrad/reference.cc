// SPDX-License-Identifier: Apache-2.0
// For every row that occurs: g is the sum of its occurrences' gradients (times weight, divided by
// the bag's length for means), m += mean of g^2, and W -= rate / (sqrt(m) + eps) * g. In double
// precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fettle_reference.h"

namespace {

class Updates {
 public:
  explicit Updates(const fettle_ref* ref)
      : tables_(fettle_size(ref, "tables")),
        batch_(fettle_size(ref, "batch")),
        width_(fettle_size(ref, "width")),
        mean_(fettle_size(ref, "mean") != 0),
        offsets_(fettle_input(ref, "offsets").integers),
        grad_out_(fettle_input(ref, "grad_out").values),
        momentum_(fettle_input(ref, "momentum").values),
        rate_(fettle_scalar(ref, "rate")),
        eps_(fettle_scalar(ref, "eps")),
        sums_(static_cast<std::size_t>(width_)),
        sizes_(static_cast<std::size_t>(width_)) {
    if (fettle_size(ref, "weighted") != 0) {
      sample_weights_ = fettle_input(ref, "sample_weights").values;
    }
    const std::int64_t* indices = fettle_input(ref, "indices").integers;
    for (std::int64_t bag = 0; bag < tables_ * batch_; ++bag) {
      for (std::int64_t i = offsets_[bag]; i < offsets_[bag + 1]; ++i) {
        occurrences_.push_back({bag / batch_ * fettle_size(ref, "rows") + indices[i], {bag, i}});
      }
    }
    std::sort(occurrences_.begin(), occurrences_.end());
  }

  // Works out the update of one row, if it has any.
  bool Find(std::int64_t row) {
    const auto begin =
        std::lower_bound(occurrences_.begin(), occurrences_.end(), Occurrence{row, {-1, -1}});
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(sizes_.begin(), sizes_.end(), 0.0);
    count_ = 0;
    for (auto it = begin; it != occurrences_.end() && it->first == row; ++it) {
      AddOccurrence(it->second.first, it->second.second);
      ++count_;
    }
    double mean_square = 0;
    moment_size = std::abs(momentum_[row]);
    for (std::int64_t c = 0; c < width_; ++c) {
      mean_square += sum(c) * sum(c) / static_cast<double>(width_);
      moment_size += size(c) * size(c) / static_cast<double>(width_);
    }
    moment = momentum_[row] + mean_square;
    factor = rate_ / (std::sqrt(moment) + eps_);
    return count_ > 0;
  }

  double sum(std::int64_t column) const { return sums_[static_cast<std::size_t>(column)]; }
  double size(std::int64_t column) const { return sizes_[static_cast<std::size_t>(column)]; }
  // Terms behind each value: the occurrences, and the columns that the moment is a mean of.
  double length() const { return static_cast<double>(count_ + width_); }

  // Of the row found last.
  double moment = 0, moment_size = 0, factor = 0;

 private:
  using Occurrence = std::pair<std::int64_t, std::pair<std::int64_t, std::int64_t>>;

  void AddOccurrence(std::int64_t bag, std::int64_t position) {
    double scale = sample_weights_ == nullptr ? 1.0 : sample_weights_[position];
    if (mean_) scale /= static_cast<double>(offsets_[bag + 1] - offsets_[bag]);
    const double* from = grad_out_ + (bag % batch_ * tables_ + bag / batch_) * width_;
    for (std::int64_t c = 0; c < width_; ++c) {
      sums_[static_cast<std::size_t>(c)] += scale * from[c];
      sizes_[static_cast<std::size_t>(c)] += std::abs(scale * from[c]);
    }
  }

  std::int64_t tables_, batch_, width_;
  bool mean_;
  const std::int64_t* offsets_;
  const double* grad_out_;
  const double* momentum_;
  const double* sample_weights_ = nullptr;  // Or all 1.
  double rate_, eps_;
  std::vector<double> sums_, sizes_;
  std::int64_t count_ = 0;
  std::vector<Occurrence> occurrences_;  // (row, (bag, position)), sorted.
};

}  // namespace

extern "C" void tbe_backward_adagrad_ref(fettle_ref* ref) {
  const std::int64_t width = fettle_size(ref, "width");
  const double* old = fettle_input(ref, "weights").values;
  const double* old_momentum = fettle_input(ref, "momentum").values;
  Updates updates(ref);
  fettle_result& weights = fettle_output(ref, "weights");
  for (std::int64_t i = 0; i < fettle_row_count(weights); ++i) {
    const std::int64_t row = fettle_row(weights, i);
    const bool touched = updates.Find(row);
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t at = i * width + c;
      const double before = old[row * width + c];
      weights.values[at] = touched ? before - updates.factor * updates.sum(c) : before;
      if (weights.magnitude != nullptr) {
        // An error of the moment reaches the factor by half, relatively.
        weights.magnitude[at] =
            !touched ? 0.0
                     : std::abs(before) + updates.factor * updates.size(c) *
                                              (1 + updates.moment_size / std::abs(updates.moment));
      }
      if (weights.length != nullptr) weights.length[at] = updates.length();
    }
  }
  fettle_result& momentum = fettle_output(ref, "momentum");
  for (std::int64_t i = 0; i < fettle_row_count(momentum); ++i) {
    const std::int64_t row = fettle_row(momentum, i);
    const bool touched = updates.Find(row);
    momentum.values[i] = touched ? updates.moment : old_momentum[row];
    if (momentum.magnitude != nullptr) momentum.magnitude[i] = touched ? updates.moment_size : 0.0;
    if (momentum.length != nullptr) momentum.length[i] = updates.length();
  }
}
