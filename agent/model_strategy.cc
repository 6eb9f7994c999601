// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <unordered_set>

#include "agent/forest.h"
#include "agent/search.h"

namespace fettle {
namespace {

// Ordinal features of a point: each tunable's rank, and for each pair of numeric tunables the rank
// of their product and of their ratio, since threads per block and work per thread are such.
class Features {
 public:
  explicit Features(const TunableSpace& space) : space_(&space) {
    for (std::size_t i = 0; i < space.dimensions(); ++i) {
      if (space.tunables()[i].values.size() > 1) singles_.push_back(i);
    }
    for (std::size_t i = 0; i < singles_.size(); ++i) {
      for (std::size_t j = i + 1; j < singles_.size(); ++j) AddPair(singles_[i], singles_[j]);
    }
  }

  std::size_t count() const { return singles_.size() + pairs_.size(); }

  void Append(PointCode point, std::vector<std::uint8_t>& row) const {
    for (const std::size_t i : singles_) {
      row.push_back(static_cast<std::uint8_t>(std::min<std::size_t>(255, space_->Index(point, i))));
    }
    for (const Pair& pair : pairs_) {
      const std::size_t width = space_->tunables()[pair.second].values.size();
      row.push_back(
          pair.bins[space_->Index(point, pair.first) * width + space_->Index(point, pair.second)]);
    }
  }

 private:
  struct Pair {
    std::size_t first, second;
    std::vector<std::uint8_t> bins;
  };

  bool Numeric(std::size_t i) const {
    const std::vector<std::int64_t>& values = space_->tunables()[i].values;
    return values.size() > 2 &&
           std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v > 0; });
  }

  void AddPair(std::size_t i, std::size_t j) {
    constexpr std::size_t kMaxPairs = 60, kMaxCells = 65536;
    if (!Numeric(i) || !Numeric(j) || pairs_.size() + 2 > kMaxPairs) return;
    const std::vector<std::int64_t>&a = space_->tunables()[i].values,
          &b = space_->tunables()[j].values;
    if (a.size() * b.size() > kMaxCells) return;
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> keys;
      for (const std::int64_t x : a) {
        for (const std::int64_t y : b) {
          keys.push_back(std::round(
              1e6 * (std::log(static_cast<double>(x)) + sign * std::log(static_cast<double>(y)))));
        }
      }
      std::vector<double> sorted = keys;
      std::sort(sorted.begin(), sorted.end());
      sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
      Pair pair{i, j, {}};
      for (const double key : keys) {
        const auto rank = static_cast<std::size_t>(
            std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin());
        pair.bins.push_back(static_cast<std::uint8_t>(
            sorted.size() <= 256 ? rank : rank * 255 / (sorted.size() - 1)));
      }
      pairs_.push_back(std::move(pair));
    }
  }

  const TunableSpace* space_;
  std::vector<std::size_t> singles_;
  std::vector<Pair> pairs_;
};

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
double NormalDensity(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::acos(-1.0)); }

class ModelStrategy final : public SearchStrategy {
 public:
  std::string_view name() const override { return "model"; }

  std::optional<PointCode> Suggest(const SearchHistory& history, Random& random) override {
    constexpr std::size_t kFewest = 8;
    if (history.ranking().size() < kFewest) return std::nullopt;
    Refresh(history);
    // Mostly around what is good; a forest is the least certain where it saw little, and the whole
    // space holds so many such points that they would take all.
    constexpr double kGlobal = 0.2;
    const bool global_first = random.Uniform() < kGlobal;
    for (const auto* list :
         {global_first ? &global_ : &local_, global_first ? &local_ : &global_}) {
      for (const PointCode point : *list) {
        if (!history.IsTaken(point)) return point;
      }
    }
    return std::nullopt;
  }

 private:
  // Fits anew once the history has grown by a twentieth. Everything drawn here depends on the part
  // of the history that was fitted alone.
  void Refresh(const SearchHistory& history) {
    std::size_t count = 1;
    while (count + 1 + count / 20 <= history.evaluations().size()) count += 1 + count / 20;
    if (count == fitted_) return;
    fitted_ = count;
    if (!features_.has_value()) features_.emplace(history.space());
    const std::span<const Evaluation> known(history.evaluations().data(), count);
    Random random = Random::For({count, known.back().point});
    const Forest forest = FitModel(known, random);
    Prefer(history.space(), known, forest, random);
  }

  Forest FitModel(std::span<const Evaluation> known, Random& random) const {
    double worst = -1e300;  // What a failed point counts as.
    for (const Evaluation& evaluation : known)
      worst = std::max(worst, evaluation.cost.value_or(worst));
    std::vector<std::uint8_t> rows;
    std::vector<double> targets;
    rows.reserve(known.size() * features_->count());
    for (const Evaluation& evaluation : known) {
      features_->Append(evaluation.point, rows);
      targets.push_back(evaluation.cost.value_or(worst));
    }
    return Forest::Fit(rows, features_->count(), targets, Forest::Options{}, random);
  }

  // Ranks points by expected improvement: draws from the whole space, and what lies near or between
  // the best known.
  void Prefer(const TunableSpace& space, std::span<const Evaluation> known, const Forest& forest,
              Random& random) {
    std::unordered_set<PointCode> used;
    double best = 1e300;
    for (const Evaluation& evaluation : known) {
      used.insert(evaluation.point);
      best = std::min(best, evaluation.cost.value_or(best));
    }
    global_ = Ranked(DrawPool(space, used, random), forest, best);
    local_ = Ranked(LocalPool(space, known, used, random), forest, best);
  }

  std::vector<PointCode> Ranked(const std::vector<PointCode>& pool, const Forest& forest,
                                double best) const {
    constexpr std::size_t kKept = 256;
    std::vector<std::pair<double, PointCode>> gains;
    std::vector<std::uint8_t> row;
    for (const PointCode point : pool) {
      row.clear();
      features_->Append(point, row);
      const Forest::Prediction prediction = forest.Predict(row);
      const double deviation = std::max(prediction.deviation, 1e-6);
      const double z = (best - prediction.mean) / deviation;
      gains.emplace_back(-deviation * (z * NormalCdf(z) + NormalDensity(z)), point);
    }
    const std::size_t kept = std::min(kKept, gains.size());
    std::partial_sort(gains.begin(), gains.begin() + static_cast<std::ptrdiff_t>(kept),
                      gains.end());
    std::vector<PointCode> ranked;
    for (std::size_t i = 0; i < kept; ++i) ranked.push_back(gains[i].second);
    return ranked;
  }

  static std::vector<PointCode> DrawPool(const TunableSpace& space,
                                         const std::unordered_set<PointCode>& used,
                                         Random& random) {
    constexpr int kDraws = 400;
    std::vector<PointCode> pool;
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::optional<PointCode> point = space.Draw(random);
      if (point.has_value() && !used.contains(*point)) pool.push_back(*point);
    }
    return pool;
  }

  // Neighbours of the very best and children of the best, each tunable from either parent.
  static std::vector<PointCode> LocalPool(const TunableSpace& space,
                                          std::span<const Evaluation> known,
                                          std::unordered_set<PointCode> used, Random& random) {
    constexpr std::size_t kCentres = 6, kParents = 20;
    constexpr int kChildren = 400;
    std::vector<std::pair<double, PointCode>> best;
    for (const Evaluation& evaluation : known) {
      if (evaluation.cost.has_value()) best.emplace_back(*evaluation.cost, evaluation.point);
    }
    std::sort(best.begin(), best.end());
    best.resize(std::min(kParents, best.size()));
    std::vector<PointCode> pool;
    const auto add = [&](PointCode point) {
      if (used.insert(point).second) pool.push_back(point);
    };
    for (int child = 0; child < kChildren && !best.empty(); ++child) {
      const PointCode mother = best[random.Below(best.size())].second,
                      father = best[random.Below(best.size())].second;
      const PointCode point = Crossover(space, mother, father, random);
      if (space.IsValid(point)) add(point);
    }
    for (std::size_t i = 0; i < std::min(kCentres, best.size()); ++i) {
      for (const PointCode point : space.Neighbours(best[i].second)) add(point);
      for (const PointCode point : space.AdjacentNeighbours(best[i].second)) add(point);
    }
    return pool;
  }

  std::size_t fitted_ = 0;                 // Evaluations that the model saw.
  std::vector<PointCode> local_, global_;  // Most promising first.
  std::optional<Features> features_;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeModelStrategy() { return std::make_unique<ModelStrategy>(); }

}  // namespace fettle
