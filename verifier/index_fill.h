// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/runner_session.h"

namespace fettle {

// Entries in memory that nobody has touched before: large lists are written by several threads.
struct IndexValues {
  std::unique_ptr<std::int64_t[]> data;
  std::int64_t count = 0;
  std::int64_t& operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
};

// The `count` entries of an index fill (kIndex... and kList). Uniform and zipf fills take the sets
// of integers, and for edge values also hold lo and hi - 1 where there is room.
// kInvalidArgument: an empty range, or a list of another length than the fill needs.
absl::StatusOr<IndexValues> MakeIndices(const Fill& fill, std::int64_t count, std::uint64_t seed,
                                        InputSet set);

}  // namespace fettle
