// SPDX-License-Identifier: Apache-2.0
#include "exporter/portfolio.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr int kExhaustive = 12;

// The least cost of a case among `members`; the baseline costs 1.
double Least(const PortfolioCase& entry, const std::vector<int>& members) {
  double least = 1;
  for (const int k : members) least = std::min(least, entry.cost[static_cast<std::size_t>(k)]);
  return least;
}

struct Regret {
  double mean = 0, worst = 0;  // Logarithms.
};

Regret RegretOf(const std::vector<PortfolioCase>& cases, const std::vector<int>& members) {
  Regret regret;
  double weight = 0;
  for (const PortfolioCase& entry : cases) {
    double best = 1;
    for (const double cost : entry.cost) best = std::min(best, cost);
    const double loss = std::log(Least(entry, members) / best);
    regret.mean += entry.weight * loss;
    regret.worst = std::max(regret.worst, loss);
    weight += entry.weight;
  }
  if (weight > 0) regret.mean /= weight;
  return regret;
}

std::vector<int> BestSubset(const std::vector<PortfolioCase>& cases, int kernels, int most,
                            double worth) {
  std::vector<int> best;
  double best_score = RegretOf(cases, best).mean;
  for (std::uint32_t bits = 1; bits < 1U << kernels; ++bits) {
    const int count = std::popcount(bits);
    if (count > most) continue;
    std::vector<int> members;
    for (int k = 0; k < kernels; ++k) {
      if ((bits >> k & 1) != 0) members.push_back(k);
    }
    // Each member must be worth its place.
    const double score = RegretOf(cases, members).mean + worth * count;
    if (score < best_score - 1e-12) {
      best_score = score;
      best = std::move(members);
    }
  }
  return best;
}

std::vector<int> GreedySubset(const std::vector<PortfolioCase>& cases, int kernels, int most,
                              double worth) {
  std::vector<int> members;
  double score = RegretOf(cases, members).mean;
  while (static_cast<int>(members.size()) < most) {
    int best = -1;
    double best_score = score - worth;
    for (int k = 0; k < kernels; ++k) {
      if (std::find(members.begin(), members.end(), k) != members.end()) continue;
      members.push_back(k);
      const double now = RegretOf(cases, members).mean;
      members.pop_back();
      if (now < best_score - 1e-12) {
        best_score = now;
        best = k;
      }
    }
    if (best < 0) break;
    members.push_back(best);
    score = best_score;
  }
  for (bool better = true; better;) {
    better = false;
    for (int& member : members) {
      for (int k = 0; k < kernels; ++k) {
        if (std::find(members.begin(), members.end(), k) != members.end()) continue;
        const int old = member;
        member = k;
        const double now = RegretOf(cases, members).mean;
        if (now < score - 1e-12) {
          score = now;
          better = true;
        } else {
          member = old;
        }
      }
    }
  }
  return members;
}

double MeanCost(const std::vector<PortfolioCase>& cases, int kernel) {
  double sum = 0, weight = 0;
  for (const PortfolioCase& entry : cases) {
    const double cost = entry.cost[static_cast<std::size_t>(kernel)];
    if (!std::isfinite(cost)) continue;
    sum += entry.weight * std::log(cost);
    weight += entry.weight;
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::infinity();
}

}  // namespace

Portfolio ChoosePortfolio(const std::vector<PortfolioCase>& cases, int kernels, int most,
                          double worth) {
  for (const PortfolioCase& entry : cases) {
    FETTLE_CHECK(entry.cost.size() == static_cast<std::size_t>(kernels));
  }
  Portfolio portfolio;
  portfolio.members = kernels <= kExhaustive ? BestSubset(cases, kernels, most, worth)
                                             : GreedySubset(cases, kernels, most, worth);
  std::sort(portfolio.members.begin(), portfolio.members.end());
  const Regret regret = RegretOf(cases, portfolio.members);
  portfolio.mean_regret = std::expm1(regret.mean);
  portfolio.worst_regret = std::expm1(regret.worst);
  for (const PortfolioCase& entry : cases) {
    std::vector<int> order;
    for (const int k : portfolio.members) {
      if (entry.cost[static_cast<std::size_t>(k)] < 1) order.push_back(k);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return entry.cost[static_cast<std::size_t>(a)] < entry.cost[static_cast<std::size_t>(b)];
    });
    portfolio.order.push_back(std::move(order));
  }
  portfolio.generic = portfolio.members;
  std::erase_if(portfolio.generic, [&](int k) { return !(MeanCost(cases, k) < 0); });
  std::stable_sort(portfolio.generic.begin(), portfolio.generic.end(),
                   [&](int a, int b) { return MeanCost(cases, a) < MeanCost(cases, b); });
  return portfolio;
}

}  // namespace fettle
