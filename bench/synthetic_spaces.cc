// SPDX-License-Identifier: Apache-2.0
#include "bench/synthetic_spaces.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "core/random.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::array<std::size_t, 6> kSizes = {8, 8, 6, 5, 4, 2};

std::vector<Tunable> MakeTunables() {
  std::vector<Tunable> tunables;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    Tunable tunable{fmt::format("T{}", i), {}};
    for (std::size_t value = 0; value < kSizes[i]; ++value) {
      tunable.values.push_back(std::int64_t{1} << value);
    }
    tunables.push_back(std::move(tunable));
  }
  return tunables;
}

// Sums of effects: of single tunables, walking along the value list, and of pairs.
class Effects {
 public:
  explicit Effects(Random& random) {
    for (const std::size_t size : kSizes) {
      std::vector<double>& effect = singles_.emplace_back();
      double level = 0;
      for (std::size_t i = 0; i < size; ++i) effect.push_back(level += 0.25 * random.Normal());
    }
    for (int i = 0; i < 3; ++i) {
      Pair pair{random.Below(kSizes.size()), random.Below(kSizes.size() - 1), {}};
      if (pair.second >= pair.first) ++pair.second;
      for (std::size_t cell = 0; cell < kSizes[pair.first] * kSizes[pair.second]; ++cell) {
        pair.effect.push_back(0.3 * random.Normal());
      }
      pairs_.push_back(std::move(pair));
    }
  }

  double At(const TunableSpace& space, PointCode point) const {
    double sum = 0;
    for (std::size_t i = 0; i < singles_.size(); ++i) sum += singles_[i][space.Index(point, i)];
    for (const Pair& pair : pairs_) {
      sum += pair.effect[space.Index(point, pair.first) * kSizes[pair.second] +
                         space.Index(point, pair.second)];
    }
    return sum;
  }

 private:
  struct Pair {
    std::size_t first, second;
    std::vector<double> effect;
  };
  std::vector<std::vector<double>> singles_;
  std::vector<Pair> pairs_;
};

SyntheticSpace Make(
    std::string name, std::vector<SpaceConstraint> constraints,
    const std::function<std::optional<double>(const TunableSpace&, PointCode)>& cost) {
  absl::StatusOr<TunableSpace> space = TunableSpace::Create(MakeTunables(), std::move(constraints));
  FETTLE_CHECK(space.ok());
  SyntheticSpace made{std::move(name), *std::move(space), {}};
  double best = 1e300;
  for (std::uint64_t rank = 0; rank < *made.space.size(); ++rank) {
    made.cost.push_back(cost(made.space, made.space.At(rank)));
    best = std::min(best, made.cost.back().value_or(best));
  }
  for (std::optional<double>& one : made.cost) {
    if (one.has_value()) *one -= best;
  }
  return made;
}

}  // namespace

SyntheticSpace MakeInteractingSpace(std::uint64_t instance) {
  Random random = Random::For({1, instance});
  const Effects effects(random);
  return Make("interacting", {},
              [&](const TunableSpace& space, PointCode point) { return effects.At(space, point); });
}

SyntheticSpace MakeRuggedSpace(std::uint64_t instance) {
  Random random = Random::For({2, instance});
  const Effects effects(random);
  struct Box {
    std::array<std::size_t, 2> tunables, corner;
  };
  std::vector<Box> boxes;
  for (int i = 0; i < 4; ++i) {
    Box box{{random.Below(3), 3 + random.Below(2)}, {}};
    for (std::size_t side = 0; side < 2; ++side) {
      box.corner[side] = random.Below(kSizes[box.tunables[side]] - 1);
    }
    boxes.push_back(box);
  }
  const auto fits = [](auto values) -> absl::StatusOr<bool> {
    return values[0] * values[1] <= 256;
  };
  const auto bounded = [](auto values) -> absl::StatusOr<bool> {
    return values[0] * values[1] <= 64;
  };
  return Make("rugged", {{{0, 1}, fits}, {{2, 3}, bounded}},
              [&](const TunableSpace& space, PointCode point) -> std::optional<double> {
                for (const Box& box : boxes) {
                  bool inside = true;
                  for (std::size_t side = 0; side < 2; ++side) {
                    const std::size_t index = space.Index(point, box.tunables[side]);
                    inside = inside && index - box.corner[side] < 2;
                  }
                  if (inside) return std::nullopt;
                }
                return effects.At(space, point) + 0.2 * Random::For({3, instance, point}).Normal();
              });
}

SyntheticSpace MakePlateauSpace(std::uint64_t instance) {
  Random random = Random::For({4, instance});
  const Effects effects(random);
  std::vector<double> all;
  const TunableSpace product = *TunableSpace::Create(MakeTunables(), {});
  for (std::uint64_t rank = 0; rank < *product.size(); ++rank) {
    all.push_back(effects.At(product, product.At(rank)));
  }
  std::sort(all.begin(), all.end());
  // Shares of the points below each step.
  std::vector<double> steps;
  for (const double share : {0.0005, 0.002, 0.01, 0.03, 0.1}) {
    steps.push_back(all[static_cast<std::size_t>(share * static_cast<double>(all.size()))]);
  }
  return Make("plateau", {}, [&](const TunableSpace& space, PointCode point) {
    const auto above = std::upper_bound(steps.begin(), steps.end(), effects.At(space, point));
    return 0.2 * static_cast<double>(above - steps.begin());
  });
}

}  // namespace fettle
