// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace fettle {

// One timed case: what each kernel costs there, relative to a common baseline of 1.
struct PortfolioCase {
  double weight = 1;
  std::vector<double> cost;  // One per kernel; infinity where it does not take the case.
};

struct Portfolio {
  std::vector<int> members;  // Ascending.
  std::vector<std::vector<int>>
      order;                 // Per case: members that take it and beat the baseline, best first.
  std::vector<int> generic;  // Members by their mean cost over the cases that they take.
  double mean_regret = 0;    // exp(weighted mean of ln(cost of the choice / least cost)) - 1.
  double worst_regret = 0;   // The largest of these ratios, less 1.
};

// Chooses at most `most` kernels so that the mean regret over the cases is least; the baseline
// (cost 1) is always there beside them. A kernel that lowers the regret by less than `worth` is
// left out. All subsets are tried up to 12 kernels; beyond that, the best next one is added and
// then exchanged while that helps. Ties go to fewer kernels, then to lower numbers.
Portfolio ChoosePortfolio(const std::vector<PortfolioCase>& cases, int kernels, int most,
                          double worth);

}  // namespace fettle
