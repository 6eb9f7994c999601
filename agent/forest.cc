// SPDX-License-Identifier: Apache-2.0
#include "agent/forest.h"

#include <cmath>

namespace fettle {

struct Forest::Builder {
  std::span<const std::uint8_t> rows;
  std::size_t features;
  std::span<const double> targets;
  const Options& options;
  Random& random;
  std::vector<Node> nodes;

  std::uint8_t Bin(std::uint32_t row, std::size_t feature) const {
    return rows[row * features + feature];
  }

  struct Split {
    std::int32_t feature = -1;
    std::uint8_t threshold = 0;
    double gain = 1e-12;
  };

  // Best split of `part` by one feature: the largest drop in squared error.
  void TryFeature(std::span<const std::uint32_t> part, std::size_t feature, double total,
                  Split& best) {
    std::array<double, 256> sums;
    std::array<std::uint32_t, 256> counts;
    std::uint8_t low = 255, high = 0;
    for (const std::uint32_t row : part) {
      low = std::min(low, Bin(row, feature));
      high = std::max(high, Bin(row, feature));
    }
    if (low == high) return;
    std::fill(sums.begin() + low, sums.begin() + high + 1, 0.0);
    std::fill(counts.begin() + low, counts.begin() + high + 1, 0U);
    for (const std::uint32_t row : part) {
      sums[Bin(row, feature)] += targets[row];
      ++counts[Bin(row, feature)];
    }
    const double n = static_cast<double>(part.size());
    double left_sum = 0, left_count = 0;
    const double base = total * total / n;
    for (int bin = low; bin < high; ++bin) {
      const auto at = static_cast<std::size_t>(bin);
      left_sum += sums[at];
      left_count += counts[at];
      if (counts[at] == 0 || left_count < options.min_leaf || n - left_count < options.min_leaf) {
        continue;
      }
      const double right = total - left_sum;
      const double gain =
          left_sum * left_sum / left_count + right * right / (n - left_count) - base;
      if (gain > best.gain) {
        // Between two filled bins, so that unseen values in the gap go either way.
        std::size_t next = at + 1;
        while (counts[next] == 0) ++next;
        const auto middle = static_cast<std::uint8_t>(at + random.Below(next - at));
        best = {static_cast<std::int32_t>(feature), middle, gain};
      }
    }
  }

  std::int32_t Grow(std::span<std::uint32_t> part) {
    const auto id = static_cast<std::int32_t>(nodes.size());
    nodes.emplace_back();
    double total = 0;
    for (const std::uint32_t row : part) total += targets[row];
    Split best;
    if (part.size() >= 2 * static_cast<std::size_t>(options.min_leaf)) {
      for (std::size_t feature = 0; feature < features; ++feature) {
        if (random.Uniform() < options.feature_share) TryFeature(part, feature, total, best);
      }
      for (std::size_t feature = 0; best.feature < 0 && feature < features; ++feature) {
        TryFeature(part, feature, total, best);
      }
    }
    if (best.feature < 0) {
      nodes[static_cast<std::size_t>(id)].value = total / static_cast<double>(part.size());
      return id;
    }
    const auto feature = static_cast<std::size_t>(best.feature);
    const auto middle = std::partition(part.begin(), part.end(), [&](std::uint32_t row) {
      return Bin(row, feature) <= best.threshold;
    });
    const auto left_size = static_cast<std::size_t>(middle - part.begin());
    const std::int32_t left = Grow(part.first(left_size));
    const std::int32_t right = Grow(part.subspan(left_size));
    Node& node = nodes[static_cast<std::size_t>(id)];
    node.feature = best.feature;
    node.threshold = best.threshold;
    node.left = left;
    node.right = right;
    return id;
  }
};

Forest Forest::Fit(std::span<const std::uint8_t> rows, std::size_t features,
                   std::span<const double> targets, const Options& options, Random& random) {
  Forest forest;
  const std::size_t n = targets.size();
  std::vector<std::uint32_t> part(n);
  for (int tree = 0; tree < options.trees; ++tree) {
    for (std::size_t i = 0; i < n; ++i) {
      part[i] = static_cast<std::uint32_t>(options.bootstrap ? random.Below(n) : i);
    }
    Builder builder{rows, features, targets, options, random, {}};
    builder.Grow(part);
    forest.trees_.push_back(std::move(builder.nodes));
  }
  return forest;
}

Forest::Prediction Forest::Predict(std::span<const std::uint8_t> row) const {
  double sum = 0, squares = 0;
  for (const std::vector<Node>& tree : trees_) {
    std::size_t at = 0;
    while (tree[at].feature >= 0) {
      at = static_cast<std::size_t>(
          row[static_cast<std::size_t>(tree[at].feature)] <= tree[at].threshold ? tree[at].left
                                                                                : tree[at].right);
    }
    sum += tree[at].value;
    squares += tree[at].value * tree[at].value;
  }
  const double n = static_cast<double>(trees_.size());
  const double mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean))};
}

}  // namespace fettle
