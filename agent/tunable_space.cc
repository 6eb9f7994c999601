// SPDX-License-Identifier: Apache-2.0
#include "agent/tunable_space.h"

#include <bit>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::uint64_t kMaxProduct = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxTable = std::uint64_t{1} << 20;
constexpr std::size_t kGroup = 8;  // Words per rank entry.

std::string JoinNames(const std::vector<Tunable>& tunables, const std::vector<std::size_t>& which) {
  std::string text;
  for (const std::size_t i : which) text += (text.empty() ? "" : ", ") + tunables[i].name;
  return text;
}

}  // namespace

absl::Status TunableSpace::SetTunables(std::vector<Tunable> tunables) {
  tunables_ = std::move(tunables);
  strides_.assign(tunables_.size(), 1);
  product_ = 1;
  for (std::size_t i = tunables_.size(); i-- > 0;) {
    const std::uint64_t count = tunables_[i].values.size();
    if (count == 0) {
      return absl::InvalidArgumentError(
          fmt::format("tunable {} has no values; list at least one", tunables_[i].name));
    }
    strides_[i] = product_;
    if (product_ > kMaxProduct / count) {
      return absl::InvalidArgumentError(
          "the tunables span more than 2^62 combinations; shorten their value lists");
    }
    product_ *= count;
  }
  return absl::OkStatus();
}

absl::StatusOr<TunableSpace::Test> TunableSpace::MakeTest(const TunableSpace& space,
                                                          SpaceConstraint constraint) {
  Test test;
  test.tunables = std::move(constraint.tunables);
  test.strides.assign(test.tunables.size(), 1);
  std::uint64_t size = 1;
  for (std::size_t i = test.tunables.size(); i-- > 0;) {
    test.strides[i] = size;
    size *= space.tunables_[test.tunables[i]].values.size();
    if (size > kMaxTable) break;
  }
  if (size > kMaxTable) {
    test.holds = std::move(constraint.holds);
    return test;
  }
  test.table.assign(size, false);
  std::vector<std::int64_t> values(test.tunables.size());
  bool any = false;
  for (std::uint64_t entry = 0; entry < size; ++entry) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::vector<std::int64_t>& list = space.tunables_[test.tunables[i]].values;
      values[i] = list[entry / test.strides[i] % list.size()];
    }
    FETTLE_ASSIGN_OR_RETURN(const bool holds, constraint.holds(values));
    test.table[entry] = holds;
    any = any || holds;
  }
  if (any) return test;
  return absl::InvalidArgumentError(
      test.tunables.empty()
          ? std::string("a constraint without tunables never holds on this target; remove it or "
                        "choose another target")
          : fmt::format("a constraint over {} excludes every combination of their values; list "
                        "values that satisfy it",
                        JoinNames(space.tunables_, test.tunables)));
}

absl::StatusOr<TunableSpace> TunableSpace::Create(std::vector<Tunable> tunables,
                                                  std::vector<SpaceConstraint> constraints) {
  TunableSpace space;
  FETTLE_RETURN_IF_ERROR(space.SetTunables(std::move(tunables)));
  space.tests_.resize(space.dimensions() + 1);
  for (SpaceConstraint& constraint : constraints) {
    const std::size_t depth = constraint.tunables.empty() ? 0 : constraint.tunables.back() + 1;
    FETTLE_ASSIGN_OR_RETURN(Test test, MakeTest(space, std::move(constraint)));
    space.tests_[depth].push_back(std::move(test));
  }
  if (space.product_ <= kEnumerable) {
    space.Enumerate();
    if (space.size_ == 0) {
      return absl::InvalidArgumentError(
          "the constraints together exclude every combination of tunable values; relax one");
    }
  }
  return space;
}

absl::StatusOr<TunableSpace> TunableSpace::FromPoints(std::vector<Tunable> tunables,
                                                      std::span<const PointCode> points) {
  TunableSpace space;
  FETTLE_RETURN_IF_ERROR(space.SetTunables(std::move(tunables)));
  if (points.empty() || space.product_ > kEnumerable) {
    return absl::InvalidArgumentError("a list of points must be nonempty and within 2^26");
  }
  space.bits_.assign((space.product_ + 63) / 64, 0);
  for (const PointCode point : points) {
    FETTLE_CHECK(point < space.product_);
    space.bits_[point / 64] |= std::uint64_t{1} << (point % 64);
  }
  space.CountRanks();
  return space;
}

bool TunableSpace::Holds(const Test& test, PointCode point) const {
  if (test.holds == nullptr) {
    std::uint64_t entry = 0;
    for (std::size_t i = 0; i < test.tunables.size(); ++i) {
      entry += Index(point, test.tunables[i]) * test.strides[i];
    }
    return test.table[entry];
  }
  std::vector<std::int64_t> values(test.tunables.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Value(point, test.tunables[i]);
  const absl::StatusOr<bool> holds = test.holds(values);
  return holds.ok() && *holds;  // Values that a constraint fails on cannot be used.
}

void TunableSpace::EnumerateFrom(std::size_t depth, PointCode prefix) {
  for (const Test& test : tests_[depth]) {
    if (!Holds(test, prefix)) return;
  }
  if (depth == dimensions()) {
    bits_[prefix / 64] |= std::uint64_t{1} << (prefix % 64);
    return;
  }
  for (std::size_t i = 0; i < tunables_[depth].values.size(); ++i) {
    EnumerateFrom(depth + 1, prefix + i * strides_[depth]);
  }
}

void TunableSpace::Enumerate() {
  bits_.assign((product_ + 63) / 64, 0);
  EnumerateFrom(0, 0);
  CountRanks();
}

void TunableSpace::CountRanks() {
  ranks_.clear();
  size_ = 0;
  for (std::size_t word = 0; word < bits_.size(); ++word) {
    if (word % kGroup == 0) ranks_.push_back(size_);
    size_ += static_cast<std::uint64_t>(std::popcount(bits_[word]));
  }
}

std::size_t TunableSpace::free_dimensions() const {
  return static_cast<std::size_t>(
      std::count_if(tunables_.begin(), tunables_.end(),
                    [](const Tunable& one) { return one.values.size() > 1; }));
}

std::optional<std::uint64_t> TunableSpace::size() const {
  if (!enumerated()) return std::nullopt;
  return size_;
}

bool TunableSpace::IsValid(PointCode point) const {
  if (point >= product_) return false;
  if (enumerated()) return (bits_[point / 64] >> (point % 64) & 1) != 0;
  for (const std::vector<Test>& tests : tests_) {
    for (const Test& test : tests) {
      if (!Holds(test, point)) return false;
    }
  }
  return true;
}

PointCode TunableSpace::At(std::uint64_t rank) const {
  FETTLE_CHECK(enumerated() && rank < size_);
  const auto group = std::upper_bound(ranks_.begin(), ranks_.end(), rank) - 1;
  std::uint64_t left = rank - *group;
  std::size_t word = static_cast<std::size_t>(group - ranks_.begin()) * kGroup;
  while (left >= static_cast<std::uint64_t>(std::popcount(bits_[word]))) {
    left -= static_cast<std::uint64_t>(std::popcount(bits_[word]));
    ++word;
  }
  std::uint64_t bits = bits_[word];
  for (; left > 0; --left) bits &= bits - 1;
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

std::optional<PointCode> TunableSpace::Draw(Random& random) const {
  if (enumerated()) return At(random.Below(size_));
  for (int attempt = 0; attempt < 10000; ++attempt) {
    PointCode point = 0;
    bool alive = true;
    for (std::size_t depth = 0; depth < dimensions() && alive; ++depth) {
      // Values that the tests decidable here leave over, in random order.
      const std::size_t count = tunables_[depth].values.size();
      const std::size_t first = random.Below(count);
      alive = false;
      for (std::size_t step = 0; step < count && !alive; ++step) {
        const PointCode next = point + (first + step) % count * strides_[depth];
        alive = std::all_of(tests_[depth + 1].begin(), tests_[depth + 1].end(),
                            [&](const Test& test) { return Holds(test, next); });
        if (alive) point = next;
      }
    }
    if (alive && IsValid(point)) return point;
  }
  return std::nullopt;
}

TunableValues TunableSpace::Values(PointCode point) const {
  TunableValues values;
  for (std::size_t i = 0; i < dimensions(); ++i) values[tunables_[i].name] = Value(point, i);
  return values;
}

std::optional<PointCode> TunableSpace::Code(const TunableValues& values) const {
  if (values.size() != dimensions()) return std::nullopt;
  PointCode point = 0;
  for (std::size_t i = 0; i < dimensions(); ++i) {
    const auto found = values.find(tunables_[i].name);
    if (found == values.end()) return std::nullopt;
    const std::vector<std::int64_t>& list = tunables_[i].values;
    const auto at = std::find(list.begin(), list.end(), found->second);
    if (at == list.end()) return std::nullopt;
    point += static_cast<std::uint64_t>(at - list.begin()) * strides_[i];
  }
  return point;
}

std::vector<PointCode> TunableSpace::Neighbours(PointCode point) const {
  std::vector<PointCode> found;
  for (std::size_t i = 0; i < dimensions(); ++i) {
    for (std::size_t index = 0; index < tunables_[i].values.size(); ++index) {
      const PointCode other = WithIndex(point, i, index);
      if (other != point && IsValid(other)) found.push_back(other);
    }
  }
  return found;
}

std::vector<PointCode> TunableSpace::AdjacentNeighbours(PointCode point) const {
  const auto step = [&](PointCode from, std::size_t tunable, int by) -> std::optional<PointCode> {
    const std::size_t index = Index(from, tunable);
    if (by < 0 ? index == 0 : index + 1 == tunables_[tunable].values.size()) return std::nullopt;
    return WithIndex(from, tunable, by < 0 ? index - 1 : index + 1);
  };
  std::vector<PointCode> found;
  for (std::size_t i = 0; i < dimensions(); ++i) {
    for (const int by : {-1, 1}) {
      const std::optional<PointCode> one = step(point, i, by);
      if (!one.has_value()) continue;
      if (IsValid(*one)) found.push_back(*one);
      for (std::size_t j = i + 1; j < dimensions(); ++j) {
        for (const int also : {-1, 1}) {
          const std::optional<PointCode> two = step(*one, j, also);
          if (two.has_value() && IsValid(*two)) found.push_back(*two);
        }
      }
    }
  }
  return found;
}

}  // namespace fettle
