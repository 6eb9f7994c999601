// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/random.h"
#include "core/task.h"

namespace fettle {

// One value per tunable as a mixed-radix number: the index of each tunable's value, the last
// tunable varying fastest.
using PointCode = std::uint64_t;

// A condition on some of the tunables.
struct SpaceConstraint {
  std::vector<std::size_t> tunables;  // Positions, ascending; may be empty.
  // Gets one value per position.
  std::function<absl::StatusOr<bool>(std::span<const std::int64_t>)> holds;
};

// The tunables' Cartesian product less what the constraints exclude. Up to kEnumerable points of
// the product the valid ones are kept as one bit each, so that they can be counted and addressed by
// rank; beyond that they are only drawn and tested. Immutable and thread-safe.
class TunableSpace {
 public:
  static constexpr std::uint64_t kEnumerable = std::uint64_t{1} << 26;  // 8 MiB of bits.

  // kInvalidArgument: no tunable value at all, a product beyond 2^62, or no valid point (names the
  // tunables that the emptying constraint is about); errors of a constraint.
  static absl::StatusOr<TunableSpace> Create(std::vector<Tunable> tunables,
                                             std::vector<SpaceConstraint> constraints);
  // Exactly these points. kInvalidArgument when empty or beyond kEnumerable.
  static absl::StatusOr<TunableSpace> FromPoints(std::vector<Tunable> tunables,
                                                 std::span<const PointCode> points);

  const std::vector<Tunable>& tunables() const { return tunables_; }
  std::size_t dimensions() const { return tunables_.size(); }
  // Tunables with more than one value.
  std::size_t free_dimensions() const;
  std::uint64_t product() const { return product_; }
  bool enumerated() const { return !bits_.empty(); }
  // Valid points; unset where not enumerated.
  std::optional<std::uint64_t> size() const;
  // What the set of valid points takes.
  std::size_t memory_bytes() const { return 8 * (bits_.size() + ranks_.size()); }

  bool IsValid(PointCode point) const;
  // The valid point of that rank, in ascending code order. enumerated() and rank < size().
  PointCode At(std::uint64_t rank) const;
  // A valid point, uniform where enumerated, else uniform over what survives each choice; unset
  // when 10,000 draws found none.
  std::optional<PointCode> Draw(Random& random) const;

  std::size_t Index(PointCode point, std::size_t tunable) const {
    return static_cast<std::size_t>(point / strides_[tunable]) % tunables_[tunable].values.size();
  }
  std::int64_t Value(PointCode point, std::size_t tunable) const {
    return tunables_[tunable].values[Index(point, tunable)];
  }
  PointCode WithIndex(PointCode point, std::size_t tunable, std::size_t index) const {
    return point + (index - Index(point, tunable)) * strides_[tunable];
  }
  TunableValues Values(PointCode point) const;
  // Unset when a tunable is missing, unknown or has another value. Does not test the constraints.
  std::optional<PointCode> Code(const TunableValues& values) const;

  // Valid points that differ in one tunable.
  std::vector<PointCode> Neighbours(PointCode point) const;
  // Valid points one step of the value list away in one tunable, or in two at once.
  std::vector<PointCode> AdjacentNeighbours(PointCode point) const;

 private:
  // A constraint as a table over its tunables' indices where that is small, else as the function.
  struct Test {
    std::vector<std::size_t> tunables;
    std::vector<std::uint64_t> strides;  // Of the table.
    std::vector<bool> table;
    std::function<absl::StatusOr<bool>(std::span<const std::int64_t>)> holds;
  };

  TunableSpace() = default;
  absl::Status SetTunables(std::vector<Tunable> tunables);
  static absl::StatusOr<Test> MakeTest(const TunableSpace& space, SpaceConstraint constraint);
  bool Holds(const Test& test, PointCode point) const;
  void Enumerate();
  void CountRanks();
  // Points whose first `depth` tunables are those of `prefix` and that hold.
  void EnumerateFrom(std::size_t depth, PointCode prefix);

  std::vector<Tunable> tunables_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t product_ = 1;
  // tests_[d]: those whose last tunable is d - 1, so that a prefix of d tunables decides them.
  std::vector<std::vector<Test>> tests_;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint64_t> ranks_;  // Valid points before each group of kGroup words.
  std::uint64_t size_ = 0;
};

}  // namespace fettle
