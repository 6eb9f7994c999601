// SPDX-License-Identifier: Apache-2.0
#include "agent/search.h"

#include <cmath>
#include <set>
#include <unordered_map>

#include "agent/forest.h"
#include "bench/synthetic_spaces.h"

namespace fettle {
namespace {

std::vector<std::int64_t> Range(std::int64_t count) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 1; i <= count; ++i) values.push_back(i);
  return values;
}

TunableSpace MakeSpace(std::size_t tunables, std::int64_t values) {
  std::vector<Tunable> list;
  for (std::size_t i = 0; i < tunables; ++i) list.push_back({fmt::format("T{}", i), Range(values)});
  return *TunableSpace::Create(std::move(list), {});
}

// Smooth in each tunable, with an interaction and a region that fails.
std::optional<double> Cost(const TunableSpace& space, PointCode point) {
  double cost = 0;
  for (std::size_t i = 0; i < space.dimensions(); ++i) {
    const double x = static_cast<double>(space.Index(point, i)) - 2.0 - static_cast<double>(i % 7);
    cost += 0.05 * x * x;
  }
  const double x = static_cast<double>(space.Index(point, 0)),
               y = static_cast<double>(space.Index(point, 1));
  if (x * y > 25) return std::nullopt;
  return cost + 0.1 * std::abs(x - y);
}

// Runs `count` steps and returns the points in order.
std::vector<PointCode> RunSearch(const TunableSpace& space, Search& search, int count) {
  std::vector<PointCode> points;
  for (int i = 0; i < count; ++i) {
    const auto next = search.Next();
    if (!next.has_value()) break;
    points.push_back(next->point);
    search.Observe({next->point, Cost(space, next->point), next->technique});
  }
  return points;
}

double BestCost(const TunableSpace& space, const std::vector<PointCode>& points) {
  double best = 1e300;
  for (const PointCode point : points) best = std::min(best, Cost(space, point).value_or(1e300));
  return best;
}

TEST(Search, IsExhaustiveWhenTheBudgetCoversTheSpace) {
  const TunableSpace space = MakeSpace(3, 6);
  Search search(space, 7, 216);
  const std::vector<PointCode> points = RunSearch(space, search, 1000);
  EXPECT_EQ(std::set<PointCode>(points.begin(), points.end()).size(), 216U);
  EXPECT_EQ(points.size(), 216U);
  Search other(space, 8, 216);
  EXPECT_NE(RunSearch(space, other, 216), points);  // Shuffled by seed.
  EXPECT_FALSE(std::is_sorted(points.begin(), points.end()));
}

TEST(Search, NeverSuggestsAPointTwiceAndEndsWhenNoneIsLeft) {
  const TunableSpace space = MakeSpace(3, 6);
  Search search(space, 7, 100);  // Not exhaustive, but run to the end.
  const std::vector<PointCode> points = RunSearch(space, search, 1000);
  EXPECT_EQ(points.size(), 216U);
  EXPECT_EQ(std::set<PointCode>(points.begin(), points.end()).size(), 216U);
}

TEST(Search, DoesNotRepeatWhatIsStillOnItsWay) {
  const TunableSpace space = MakeSpace(3, 6);
  Search search(space, 3, 100);
  std::set<PointCode> points;
  for (int i = 0; i < 100; ++i) points.insert(search.Next()->point);  // Nothing observed.
  EXPECT_EQ(points.size(), 100U);
}

TEST(Search, IsAFunctionOfSeedAndHistory) {
  const TunableSpace space = MakeSpace(4, 10);
  for (const std::int64_t budget : {300, 10000}) {  // Portfolio, exhaustive.
    Search whole(space, 11, budget);
    const std::vector<PointCode> points = RunSearch(space, whole, 200);
    Search again(space, 11, budget);
    EXPECT_EQ(RunSearch(space, again, 200), points);
    // A search that is only told the first 120 outcomes goes on as the first did.
    Search resumed(space, 11, budget);
    for (std::size_t i = 0; i < 120; ++i) resumed.Observe(whole.history().evaluations()[i]);
    const std::vector<PointCode> rest = RunSearch(space, resumed, 80);
    EXPECT_EQ(rest, std::vector<PointCode>(points.begin() + 120, points.end()));
  }
}

TEST(Search, FindsBetterPointsThanChance) {
  const TunableSpace space = MakeSpace(5, 10);  // 100,000 points.
  int better = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Search tuner(space, seed, 150), chance(space, seed, 150, MakeRandomStrategy());
    const double found = BestCost(space, RunSearch(space, tuner, 150));
    better += found < BestCost(space, RunSearch(space, chance, 150)) ? 1 : 0;
  }
  EXPECT_GE(better, 9);
}

TEST(Search, LearnsToAvoidFailures) {
  const TunableSpace space = MakeSpace(4, 10);
  int early = 0, late = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Search search(space, seed, 200);
    const std::vector<PointCode> points = RunSearch(space, search, 200);
    for (std::size_t i = 0; i < 20; ++i) {
      early += Cost(space, points[i]).has_value() ? 0 : 1;
      late += Cost(space, points[180 + i]).has_value() ? 0 : 1;
    }
  }
  EXPECT_GT(early, 10);
  EXPECT_LT(late, early / 2);
}

TEST(Search, WorksWhenEverythingFails) {
  const TunableSpace space = MakeSpace(3, 6);
  Search search(space, 5, 60);
  for (int i = 0; i < 60; ++i) {
    const auto next = search.Next();
    ASSERT_TRUE(next.has_value());
    search.Observe({next->point, std::nullopt, next->technique});
  }
}

TEST(Search, WorksInASpaceTooLargeToEnumerate) {
  const TunableSpace space = MakeSpace(16, 12);
  ASSERT_FALSE(space.enumerated());
  Search search(space, 5, 120);
  const std::vector<PointCode> points = RunSearch(space, search, 120);
  EXPECT_EQ(std::set<PointCode>(points.begin(), points.end()).size(), 120U);
  const std::vector<PointCode> start(points.begin(), points.begin() + 32);
  EXPECT_LT(BestCost(space, points), 0.8 * BestCost(space, start));
}

TEST(Search, IgnoresTunablesWithoutAChoice) {
  const TunableSpace plain = MakeSpace(4, 8);
  std::vector<Tunable> tunables = plain.tunables();
  tunables.insert(tunables.begin() + 2, {"FIXED", {15}});
  for (int i = 0; i < 3; ++i) tunables.push_back({fmt::format("ONE{}", i), {1}});
  const TunableSpace padded = *TunableSpace::Create(std::move(tunables), {});
  Search search(plain, 9, 200), other(padded, 9, 200);
  std::vector<PointCode> points;
  for (int i = 0; i < 200; ++i) {
    const auto next = other.Next();
    ASSERT_TRUE(next.has_value());
    points.push_back(
        next->point);  // The same codes: a single value has a stride and index of its own.
    other.Observe({next->point, Cost(plain, next->point), next->technique});
  }
  EXPECT_EQ(RunSearch(plain, search, 200), points);
}

TEST(Search, KeepsUpWithEachSingleStrategyOnMadeUpSpaces) {
  constexpr int kInstances = 8, kEvaluations = 200;
  const std::vector<std::unique_ptr<SearchStrategy> (*)()> singles = {
      &MakeRandomStrategy, &MakeGreedyStrategy, &MakeGeneticStrategy, &MakeAnnealingStrategy,
      &MakeModelStrategy};
  for (const auto make : {MakeInteractingSpace, MakeRuggedSpace, MakePlateauSpace}) {
    std::vector<double> means(singles.size() + 1);  // Of ln found / best; last: the portfolio.
    std::string name;
    for (std::uint64_t instance = 0; instance < kInstances; ++instance) {
      const SyntheticSpace made = make(100 + instance);
      name = made.name;
      std::unordered_map<PointCode, std::optional<double>> cost;
      for (std::uint64_t rank = 0; rank < made.cost.size(); ++rank) {
        cost[made.space.At(rank)] = made.cost[rank];
      }
      for (std::size_t s = 0; s < means.size(); ++s) {
        Search search = s < singles.size()
                            ? Search(made.space, instance, kEvaluations, singles[s]())
                            : Search(made.space, instance, kEvaluations);
        for (int i = 0; i < kEvaluations; ++i) {
          const auto next = search.Next();
          ASSERT_TRUE(next.has_value());
          search.Observe({next->point, cost.at(next->point), next->technique});
        }
        ASSERT_TRUE(search.history().best().has_value());
        means[s] += *search.history().evaluations()[*search.history().best()].cost / kInstances;
      }
    }
    EXPECT_LT(means.back(), *std::min_element(means.begin(), means.end() - 1) + 0.1) << name;
    EXPECT_LT(means.back(), 0.5 * means.front()) << name;  // Chance.
  }
}

class EveryStrategy : public ::testing::TestWithParam<std::unique_ptr<SearchStrategy> (*)()> {};

TEST_P(EveryStrategy, SuggestsValidFreePoints) {
  const auto space = TunableSpace::Create(
      {{"A", Range(12)}, {"B", Range(12)}, {"C", {1}}, {"D", {0, 1}}},
      {{{0, 1}, [](auto v) -> absl::StatusOr<bool> { return (v[0] + v[1]) % 3 == 0; }}});
  ASSERT_TRUE(space.ok());
  SearchHistory history(*space, 60);
  const auto strategy = GetParam()();
  Random random(1);
  int suggested = 0;
  for (int i = 0; i < 60; ++i) {
    std::optional<PointCode> point = strategy->Suggest(history, random);
    if (point.has_value()) {
      ++suggested;
      EXPECT_TRUE(space->IsValid(*point));
      EXPECT_FALSE(history.IsTaken(*point));
    } else {
      do point = space->Draw(random);
      while (history.IsTaken(*point));
    }
    history.Add(
        {*point, static_cast<double>(space->Index(*point, 0)), std::string(strategy->name())});
  }
  EXPECT_GT(suggested, 25);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy,
                         ::testing::Values(&MakeRandomStrategy, &MakeSpreadStrategy,
                                           &MakeGreedyStrategy, &MakeGeneticStrategy,
                                           &MakeAnnealingStrategy, &MakeModelStrategy));

TEST(Forest, LearnsAnInteraction) {
  std::vector<std::uint8_t> rows;
  std::vector<double> targets;
  Random random(3);
  for (int i = 0; i < 600; ++i) {
    const auto a = static_cast<std::uint8_t>(random.Below(10)),
               b = static_cast<std::uint8_t>(random.Below(10)),
               unrelated = static_cast<std::uint8_t>(random.Below(10));
    rows.insert(rows.end(), {a, b, unrelated});
    targets.push_back((a > 4) == (b > 6) ? 1 : 0);
  }
  const Forest forest = Forest::Fit(rows, 3, targets, Forest::Options{}, random);
  int right = 0;
  for (std::uint8_t a = 0; a < 10; ++a) {
    for (std::uint8_t b = 0; b < 10; ++b) {
      const std::array<std::uint8_t, 3> row{a, b, 5};
      right += (forest.Predict(row).mean > 0.5) == ((a > 4) == (b > 6)) ? 1 : 0;
    }
  }
  EXPECT_GE(right, 95);
}

TEST(Forest, IsLessCertainWhereItSawNothing) {
  std::vector<std::uint8_t> rows;
  std::vector<double> targets;
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const auto a = static_cast<std::uint8_t>(random.Below(100) < 50 ? random.Below(20)
                                                                    : 80 + random.Below(20));
    rows.push_back(a);
    targets.push_back(a < 50 ? 0 : 1);
  }
  const Forest forest = Forest::Fit(rows, 1, targets, Forest::Options{}, random);
  EXPECT_EQ(forest.Predict(std::array<std::uint8_t, 1>{10}).deviation, 0);
  EXPECT_GT(forest.Predict(std::array<std::uint8_t, 1>{50}).deviation, 0.2);
}

}  // namespace
}  // namespace fettle
