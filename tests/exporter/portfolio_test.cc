// SPDX-License-Identifier: Apache-2.0
#include "exporter/portfolio.h"

#include <cmath>
#include <limits>

#include "core/random.h"

namespace fettle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(Portfolio, TakesTheKernelThatIsBestEverywhere) {
  const Portfolio portfolio = ChoosePortfolio({{1, {0.5, 0.8}}, {1, {0.6, 0.9}}}, 2, 8, 0.001);
  EXPECT_EQ(portfolio.members, std::vector<int>{0});
  EXPECT_EQ(portfolio.mean_regret, 0);
}

TEST(Portfolio, TakesSpecialistsWhereOneKernelWouldLose) {
  const Portfolio portfolio =
      ChoosePortfolio({{1, {0.5, 0.9, 0.7}}, {1, {0.9, 0.5, 0.7}}}, 3, 8, 0.001);
  EXPECT_EQ(portfolio.members, (std::vector<int>{0, 1}));
  EXPECT_EQ(portfolio.order[0], (std::vector<int>{0, 1}));
  EXPECT_EQ(portfolio.order[1], (std::vector<int>{1, 0}));
  // With room for one, the all-rounder costs least.
  const Portfolio single =
      ChoosePortfolio({{1, {0.5, 0.9, 0.7}}, {1, {0.9, 0.5, 0.7}}}, 3, 1, 0.001);
  EXPECT_EQ(single.members.size(), 1U);
  EXPECT_NEAR(single.worst_regret, 0.9 / 0.5 - 1, 1e-9);
}

TEST(Portfolio, LeavesOutWhatGainsLessThanItIsWorth) {
  const Portfolio portfolio = ChoosePortfolio({{1, {0.5, 0.4999}}, {1, {0.5, 0.6}}}, 2, 8, 0.001);
  EXPECT_EQ(portfolio.members, std::vector<int>{0});
}

TEST(Portfolio, NeverOrdersAKernelWhereTheBaselineIsBetterOrItDoesNotApply) {
  const Portfolio portfolio = ChoosePortfolio({{1, {0.5}}, {1, {1.1}}, {1, {kNever}}}, 1, 8, 0.001);
  EXPECT_EQ(portfolio.order, (std::vector<std::vector<int>>{{0}, {}, {}}));
}

// Against trying all subsets, on random costs.
TEST(Portfolio, IsNoWorseThanAnyOtherSubset) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    const int kernels = 2 + static_cast<int>(random.Below(5)),
              most = 1 + static_cast<int>(random.Below(3));
    std::vector<PortfolioCase> cases;
    for (int c = 0; c < 6; ++c) {
      PortfolioCase entry{.weight = 1 + random.Uniform(), .cost = {}};
      for (int k = 0; k < kernels; ++k)
        entry.cost.push_back(random.Below(5) == 0 ? kNever : 0.4 + random.Uniform());
      cases.push_back(entry);
    }
    const Portfolio portfolio = ChoosePortfolio(cases, kernels, most, 0);
    double best_all = 1e9;
    for (unsigned bits = 0; bits < 1U << kernels; ++bits) {
      if (__builtin_popcount(bits) > most) continue;
      double sum = 0, weight = 0;
      for (const PortfolioCase& entry : cases) {
        double best = 1, chosen = 1;
        for (int k = 0; k < kernels; ++k) {
          best = std::min(best, entry.cost[static_cast<std::size_t>(k)]);
          if ((bits >> k & 1) != 0)
            chosen = std::min(chosen, entry.cost[static_cast<std::size_t>(k)]);
        }
        sum += entry.weight * std::log(chosen / best);
        weight += entry.weight;
      }
      best_all = std::min(best_all, sum / weight);
    }
    EXPECT_NEAR(std::log1p(portfolio.mean_regret), best_all, 1e-9) << round;
  }
}

TEST(Portfolio, ManyKernelsAreChosenOneByOne) {
  std::vector<PortfolioCase> cases;
  for (int c = 0; c < 20; ++c) {
    PortfolioCase entry{.weight = 1, .cost = std::vector<double>(20, 0.9)};
    entry.cost[static_cast<std::size_t>(c)] = 0.5;
    cases.push_back(entry);
  }
  const Portfolio portfolio = ChoosePortfolio(cases, 20, 8, 0.001);
  EXPECT_EQ(portfolio.members.size(), 8U);
  EXPECT_NEAR(std::log1p(portfolio.mean_regret), 12 * std::log(0.9 / 0.5) / 20, 1e-9);
}

}  // namespace
}  // namespace fettle
