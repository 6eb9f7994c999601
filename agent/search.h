// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "agent/tunable_space.h"
#include "core/random.h"

namespace fettle {

// One evaluated point.
struct Evaluation {
  PointCode point = 0;
  std::optional<double>
      cost;               // ln of time relative to anything fixed, less is better; unset: failed.
  std::string technique;  // Strategy that suggested it; empty where unknown.
};

// What a search knows. Strategies are functions of this and of a random stream, so that a history
// replayed after a restart continues as if nothing had happened.
class SearchHistory {
 public:
  // `space` must outlive this. `budget`: evaluations that the search may spend, > 0.
  SearchHistory(const TunableSpace& space, std::int64_t budget);

  const TunableSpace& space() const { return *space_; }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  // Evaluated or on the way: never to be suggested again.
  bool IsTaken(PointCode point) const { return taken_.contains(point); }
  std::size_t taken() const { return taken_.size(); }
  // Position of the cheapest evaluation; unset while none succeeded.
  std::optional<std::size_t> best() const { return best_; }
  // Positions of successful evaluations, cheapest first.
  const std::vector<std::size_t>& ranking() const { return ranking_; }
  // Part of the budget that is spent, in [0, 1].
  double progress() const;

  void MarkPending(PointCode point) { taken_.insert(point); }
  void Add(Evaluation evaluation);

 private:
  const TunableSpace* space_;
  double budget_;
  std::vector<Evaluation> evaluations_;
  std::vector<std::size_t> ranking_;
  std::unordered_set<PointCode> taken_;
  std::optional<std::size_t> best_;
};

// One way of choosing the next point.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  virtual std::string_view name() const = 0;
  // A valid point that is not taken; unset when this strategy has none now.
  virtual std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) = 0;
};

// A child that has each tunable from either parent, as likely; it may be taken or not valid.
PointCode Crossover(const TunableSpace& space, PointCode mother, PointCode father, Random& random);

// Uniform over what is left.
std::unique_ptr<SearchStrategy> MakeRandomStrategy();
// Far from everything evaluated (maximin over a few draws): the start of a search.
std::unique_ptr<SearchStrategy> MakeSpreadStrategy();
// Neighbours of the best points, best first.
std::unique_ptr<SearchStrategy> MakeGreedyStrategy();
// Crossover, and now and then a mutation, of two tournament winners among the best points.
std::unique_ptr<SearchStrategy> MakeGeneticStrategy();
// A neighbour of a point drawn with Boltzmann weights that cool as the budget is spent.
std::unique_ptr<SearchStrategy> MakeAnnealingStrategy();
// Expected improvement under a random-forest model of the cost, mostly around and between the best
// points, sometimes anywhere.
std::unique_ptr<SearchStrategy> MakeModelStrategy();

// A bandit over all of the above: it starts with spread points, then shares the evaluations out by
// what each strategy's suggestions achieved lately. One that has nothing to suggest leaves its turn
// to the next, and the last resort is any point left over. Exhaustive when the budget covers the
// space: then every valid point in an order shuffled by seed.
class Search {
 public:
  // `space` must outlive this.
  Search(const TunableSpace& space, std::uint64_t seed, std::int64_t budget);
  // With one strategy in place of the portfolio (after the same start), for comparison.
  Search(const TunableSpace& space, std::uint64_t seed, std::int64_t budget,
         std::unique_ptr<SearchStrategy> only);
  ~Search();

  struct Suggestion {
    PointCode point = 0;
    std::string technique;
  };
  // The next point, now pending; unset when nothing is left.
  std::optional<Suggestion> Next();
  // Marks a point as pending that was chosen elsewhere (the declared values).
  void Take(PointCode point) { history_.MarkPending(point); }
  void Observe(Evaluation evaluation);
  const SearchHistory& history() const { return history_; }

 private:
  std::optional<Suggestion> NextInOrder();
  std::optional<PointCode> AnyLeft(Random& random) const;
  std::size_t ChooseArm(Random& random) const;

  SearchHistory history_;
  std::uint64_t seed_;
  bool exhaustive_ = false;
  std::size_t cursor_ = 0;  // Exhaustive: position in the shuffled order.
  std::unique_ptr<SearchStrategy> start_;
  std::vector<std::unique_ptr<SearchStrategy>> arms_;
};

}  // namespace fettle
