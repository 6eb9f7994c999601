// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "agent/search.h"

namespace fettle {
namespace {

std::optional<PointCode> DrawFree(const SearchHistory& history, Random& random) {
  for (int attempt = 0; attempt < 64; ++attempt) {
    const std::optional<PointCode> point = history.space().Draw(random);
    if (point.has_value() && !history.IsTaken(*point)) return point;
  }
  return std::nullopt;
}

// One of the free points, each as likely; unset when there is none.
std::optional<PointCode> AnyFree(const SearchHistory& history, std::vector<PointCode> points,
                                 Random& random) {
  std::erase_if(points, [&](PointCode point) { return history.IsTaken(point); });
  if (points.empty()) return std::nullopt;
  return points[random.Below(points.size())];
}

class RandomStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "random"; }
  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    return DrawFree(history, random);
  }
};

class SpreadStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "spread"; }
  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    constexpr int kDraws = 24;
    std::optional<PointCode> farthest;
    double most = -1;
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::optional<PointCode> point = DrawFree(history, random);
      if (!point.has_value()) break;
      double nearest = 1e300;
      for (const Evaluation& evaluation : history.evaluations()) {
        nearest = std::min(nearest, Distance(history.space(), *point, evaluation.point));
      }
      if (nearest > most) {
        most = nearest;
        farthest = point;
      }
    }
    return farthest;
  }

 private:
  // Sum over the tunables of the distance along the value list, scaled to [0, 1].
  static double Distance(const TunableSpace& space, PointCode a, PointCode b) {
    double sum = 0;
    for (std::size_t i = 0; i < space.dimensions(); ++i) {
      const double last = static_cast<double>(space.tunables()[i].values.size()) - 1;
      if (last < 1) continue;
      sum += std::abs(static_cast<double>(space.Index(a, i)) -
                      static_cast<double>(space.Index(b, i))) /
             last;
    }
    return sum;
  }
};

class GreedyStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "greedy"; }
  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    constexpr std::size_t kCentres = 8;
    const std::vector<std::size_t>& ranking = history.ranking();
    for (std::size_t i = 0; i < std::min(kCentres, ranking.size()); ++i) {
      const PointCode centre = history.evaluations()[ranking[i]].point;
      const TunableSpace& space = history.space();
      std::optional<PointCode> point = AnyFree(history, space.AdjacentNeighbours(centre), random);
      if (!point.has_value() || random.Uniform() < 0.5) {
        const std::optional<PointCode> other = AnyFree(history, space.Neighbours(centre), random);
        if (other.has_value()) point = other;
      }
      if (point.has_value()) return point;
    }
    return std::nullopt;
  }
};

class GeneticStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "genetic"; }
  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    if (history.ranking().empty()) return std::nullopt;
    const TunableSpace& space = history.space();
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const PointCode child = Child(history, random);
      if (space.IsValid(child) && !history.IsTaken(child)) return child;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kAttempts = 40;
  static constexpr double kMutations = 0.2;  // Expected per child.

  // Each tunable from either parent; seldom one then gets another value. What crossover alone can
  // reach is used up first, since a child that is already taken is drawn again.
  static PointCode Child(const SearchHistory& history, Random& random) {
    const TunableSpace& space = history.space();
    const PointCode mother = Parent(history, random), father = Parent(history, random);
    PointCode child = Crossover(space, mother, father, random);
    const double rate =
        kMutations / static_cast<double>(std::max<std::size_t>(1, space.free_dimensions()));
    for (std::size_t i = 0; i < space.dimensions(); ++i) {
      const std::size_t count = space.tunables()[i].values.size();
      if (count < 2 || random.Uniform() >= rate) continue;
      child =
          space.WithIndex(child, i, (space.Index(child, i) + 1 + random.Below(count - 1)) % count);
    }
    return child;
  }

  // The better of three among the best 20.
  static PointCode Parent(const SearchHistory& history, Random& random) {
    const std::vector<std::size_t>& ranking = history.ranking();
    const std::size_t pool = std::min<std::size_t>(20, ranking.size());
    std::size_t winner = pool - 1;
    for (int i = 0; i < 3; ++i) winner = std::min<std::size_t>(winner, random.Below(pool));
    return history.evaluations()[ranking[winner]].point;
  }
};

class AnnealingStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "annealing"; }
  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    if (!history.best().has_value()) return std::nullopt;
    const double best = *history.evaluations()[*history.best()].cost;
    const double temperature = 0.5 * std::pow(0.02, history.progress());
    for (int attempt = 0; attempt < 8; ++attempt) {
      double total = 0;
      for (const std::size_t i : history.ranking()) {
        total += std::exp((best - *history.evaluations()[i].cost) / temperature);
      }
      double left = random.Uniform() * total;
      PointCode centre = history.evaluations()[*history.best()].point;
      for (const std::size_t i : history.ranking()) {
        centre = history.evaluations()[i].point;
        left -= std::exp((best - *history.evaluations()[i].cost) / temperature);
        if (left <= 0) break;
      }
      const TunableSpace& space = history.space();
      const std::optional<PointCode> point = AnyFree(
          history,
          random.Uniform() < 0.5 ? space.Neighbours(centre) : space.AdjacentNeighbours(centre),
          random);
      if (point.has_value()) return point;
    }
    return std::nullopt;
  }
};

}  // namespace

PointCode Crossover(const TunableSpace& space, PointCode mother, PointCode father, Random& random) {
  PointCode child = mother;
  for (std::size_t i = 0; i < space.dimensions(); ++i) {
    if (space.tunables()[i].values.size() < 2) continue;
    if (random.Uniform() < 0.5) child = space.WithIndex(child, i, space.Index(father, i));
  }
  return child;
}

std::unique_ptr<SearchStrategy> MakeRandomStrategy() { return std::make_unique<RandomStrategy>(); }
std::unique_ptr<SearchStrategy> MakeSpreadStrategy() { return std::make_unique<SpreadStrategy>(); }
std::unique_ptr<SearchStrategy> MakeGreedyStrategy() { return std::make_unique<GreedyStrategy>(); }
std::unique_ptr<SearchStrategy> MakeGeneticStrategy() {
  return std::make_unique<GeneticStrategy>();
}
std::unique_ptr<SearchStrategy> MakeAnnealingStrategy() {
  return std::make_unique<AnnealingStrategy>();
}

}  // namespace fettle
