// SPDX-License-Identifier: Apache-2.0
#include "agent/search.h"

#include <cmath>
#include <map>

#include "core/status_macros.h"

namespace fettle {
namespace {

// Points of the start, before any strategy that learns: a little more than two per tunable.
std::size_t StartPoints(const TunableSpace& space) {
  return std::max<std::size_t>(8, 2 * space.free_dimensions());
}

// A permutation of [0, size) by a four-round Feistel network over the next power of four, walking
// past what lies outside: no memory, whatever the size.
std::uint64_t Shuffled(std::uint64_t index, std::uint64_t size, std::uint64_t seed) {
  int half_bits = 1;
  while ((std::uint64_t{1} << (2 * half_bits)) < size) ++half_bits;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = index >> half_bits, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (Random::For({seed, round, right}).Next() & mask);
      left = right;
      right = mixed;
    }
    index = left << half_bits | right;
  } while (index >= size);
  return index;
}

}  // namespace

SearchHistory::SearchHistory(const TunableSpace& space, std::int64_t budget)
    : space_(&space), budget_(static_cast<double>(budget)) {
  FETTLE_CHECK(budget > 0);
}

double SearchHistory::progress() const {
  return std::min(1.0, static_cast<double>(evaluations_.size()) / budget_);
}

void SearchHistory::Add(Evaluation evaluation) {
  taken_.insert(evaluation.point);
  const std::size_t position = evaluations_.size();
  evaluations_.push_back(std::move(evaluation));
  const std::optional<double>& cost = evaluations_.back().cost;
  if (!cost.has_value()) return;
  const auto at = std::upper_bound(
      ranking_.begin(), ranking_.end(), *cost,
      [this](double value, std::size_t i) { return value < *evaluations_[i].cost; });
  ranking_.insert(at, position);
  best_ = ranking_.front();
}

Search::Search(const TunableSpace& space, std::uint64_t seed, std::int64_t budget)
    : history_(space, budget), seed_(seed), start_(MakeSpreadStrategy()) {
  exhaustive_ = space.enumerated() && *space.size() <= static_cast<std::uint64_t>(budget);
  arms_.push_back(MakeModelStrategy());
  arms_.push_back(MakeGreedyStrategy());
  arms_.push_back(MakeGeneticStrategy());
  arms_.push_back(MakeAnnealingStrategy());
  arms_.push_back(MakeRandomStrategy());
}

Search::Search(const TunableSpace& space, std::uint64_t seed, std::int64_t budget,
               std::unique_ptr<SearchStrategy> only)
    : history_(space, budget), seed_(seed), start_(MakeSpreadStrategy()) {
  if (only->name() == "random") start_ = MakeRandomStrategy();
  arms_.push_back(std::move(only));
}

Search::~Search() = default;

std::optional<Search::Suggestion> Search::NextInOrder() {
  const std::uint64_t size = *history_.space().size();
  while (cursor_ < size) {
    const PointCode point = history_.space().At(Shuffled(cursor_++, size, seed_));
    if (history_.IsTaken(point)) continue;
    history_.MarkPending(point);
    return Suggestion{point, "exhaustive"};
  }
  return std::nullopt;
}

std::optional<PointCode> Search::AnyLeft(Random& random) const {
  const TunableSpace& space = history_.space();
  if (!space.enumerated()) return MakeRandomStrategy()->Suggest(history_, random);
  const std::uint64_t size = *space.size(), first = random.Below(size);
  for (std::uint64_t step = 0; step < size; ++step) {
    const PointCode point = space.At((first + step) % size);
    if (!history_.IsTaken(point)) return point;
  }
  return std::nullopt;
}

// Each strategy's weight is a floor plus its discounted share of successes: 1 for a new best, half
// for a place among the best tenth, over its recent suggestions.
std::size_t Search::ChooseArm(Random& random) const {
  constexpr double kDiscount = 0.97;
  // How the evaluations are shared out before anything is known: most to crossover.
  static const std::map<std::string_view, double> kPriors = {
      {"model", 1.0}, {"greedy", 0.3}, {"genetic", 3.0}, {"annealing", 1.0}, {"random", 0.1}};
  std::map<std::string_view, double> credit, trials;
  double best = 1e300, weight = 1;
  const std::vector<Evaluation>& all = history_.evaluations();
  std::vector<bool> improved(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    improved[i] = all[i].cost.has_value() && *all[i].cost < best;
    if (improved[i]) best = *all[i].cost;
  }
  const std::size_t tenth = history_.ranking().size() / 10;
  const double good = history_.ranking().empty() ? 0 : *all[history_.ranking()[tenth]].cost;
  for (std::size_t i = all.size(); i-- > 0 && weight > 1e-3; weight *= kDiscount) {
    trials[all[i].technique] += weight;
    if (improved[i])
      credit[all[i].technique] += weight;
    else if (all[i].cost.has_value() && *all[i].cost < good)
      credit[all[i].technique] += 0.5 * weight;
  }
  std::vector<double> weights;
  double total = 0;
  for (const std::unique_ptr<SearchStrategy>& arm : arms_) {
    const double prior = kPriors.contains(arm->name()) ? kPriors.at(arm->name()) : 1;
    const double rate = (credit[arm->name()] + 1) / (trials[arm->name()] + 2);
    weights.push_back(prior * rate * rate);
    total += weights.back();
  }
  double left = random.Uniform() * total;
  for (std::size_t arm = 0; arm < weights.size(); ++arm) {
    left -= weights[arm];
    if (left <= 0) return arm;
  }
  return 0;
}

std::optional<Search::Suggestion> Search::Next() {
  if (exhaustive_) return NextInOrder();
  Random random = Random::For({seed_, history_.evaluations().size(), history_.taken()});
  std::optional<PointCode> point;
  std::string technique;
  if (history_.taken() < StartPoints(history_.space())) {
    point = start_->Suggest(history_, random);
    technique = start_->name();
  } else {
    // A strategy that has nothing to suggest leaves its turn to the next one.
    const std::size_t chosen = arms_.size() == 1 ? 0 : ChooseArm(random);
    for (std::size_t i = 0; i < arms_.size() && !point.has_value(); ++i) {
      SearchStrategy& arm = *arms_[(chosen + i) % arms_.size()];
      point = arm.Suggest(history_, random);
      technique = arm.name();
    }
  }
  if (!point.has_value()) {
    point = AnyLeft(random);
    technique = "random";
  }
  if (!point.has_value()) return std::nullopt;
  history_.MarkPending(*point);
  return Suggestion{*point, technique};
}

void Search::Observe(Evaluation evaluation) { history_.Add(std::move(evaluation)); }

}  // namespace fettle
