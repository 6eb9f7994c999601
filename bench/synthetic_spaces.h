// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/tunable_space.h"

namespace fettle {

// A made-up tuning space whose every cost is known, for comparing search strategies.
struct SyntheticSpace {
  std::string name;
  TunableSpace space;
  std::vector<std::optional<double>>
      cost;  // By rank: ln of time, >= 0 with 0 the best; unset: failed.
};

// `instance` chooses the random effects. Each has some thousands of points.
//
// An effect per value of each tunable, plus one per combination of three pairs of tunables.
SyntheticSpace MakeInteractingSpace(std::uint64_t instance);
// The same with an effect of each point's own, constraints that exclude about a third of the
// product, and boxes in which every point fails.
SyntheticSpace MakeRuggedSpace(std::uint64_t instance);
// Costs in a few wide steps; nine in ten points lie on the highest.
SyntheticSpace MakePlateauSpace(std::uint64_t instance);

}  // namespace fettle
