// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace fettle {

// A random forest for regression over small ordinal features: bagged trees, each split chosen among
// a random part of the features by least squares.
class Forest {
 public:
  struct Options {
    int trees = 20;
    int min_leaf = 1;
    double feature_share = 0.6;  // Of the features that a split looks at.
    bool bootstrap = true;
  };
  struct Prediction {
    double mean = 0, deviation = 0;  // Across the trees.
  };

  // `rows`: one row of `features` bins (0 to 255) per target, row-major.
  static Forest Fit(std::span<const std::uint8_t> rows, std::size_t features,
                    std::span<const double> targets, const Options& options, Random& random);
  Prediction Predict(std::span<const std::uint8_t> row) const;

 private:
  struct Node {
    std::int32_t feature = -1;   // -1: a leaf.
    std::uint8_t threshold = 0;  // Goes left when the feature is <= threshold.
    std::int32_t left = 0, right = 0;
    double value = 0;  // Leaf: mean of its targets.
  };
  struct Builder;

  std::vector<std::vector<Node>> trees_;
};

}  // namespace fettle
