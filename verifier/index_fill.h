// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"

namespace fettle {

// The `count` entries of an index fill (kIndex... and kList). With `edges`, uniform and zipf fills
// also hold lo and hi - 1 where there is room.
// kInvalidArgument: an empty range, or a list of another length than the fill needs.
absl::StatusOr<std::vector<std::int64_t>> MakeIndices(const Fill& fill, std::int64_t count,
                                                      std::uint64_t seed, bool edges);

}  // namespace fettle
