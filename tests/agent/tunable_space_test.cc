// SPDX-License-Identifier: Apache-2.0
#include "agent/tunable_space.h"

#include <set>

namespace fettle {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::int64_t> Range(std::int64_t count) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 1; i <= count; ++i) values.push_back(i);
  return values;
}

SpaceConstraint ProductAtMost(std::vector<std::size_t> tunables, std::int64_t most) {
  return {std::move(tunables),
          [most](std::span<const std::int64_t> values) -> absl::StatusOr<bool> {
            std::int64_t product = 1;
            for (const std::int64_t value : values) product *= value;
            return product <= most;
          }};
}

TEST(TunableSpace, WithoutConstraintsIsTheProduct) {
  const auto space = TunableSpace::Create({{"A", {1, 2, 4}}, {"B", {10, 20}}}, {});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(space->size(), 6U);
  EXPECT_EQ(space->Values(space->At(0)), (TunableValues{{"A", 1}, {"B", 10}}));
  EXPECT_EQ(space->Values(space->At(5)), (TunableValues{{"A", 4}, {"B", 20}}));
}

TEST(TunableSpace, RanksExactlyTheValidPoints) {
  const auto space = TunableSpace::Create({{"A", Range(50)}, {"B", Range(40)}, {"C", Range(9)}},
                                          {ProductAtMost({0, 2}, 100), ProductAtMost({1}, 33)});
  ASSERT_TRUE(space.ok()) << space.status();
  std::set<std::vector<std::int64_t>> expected;
  for (std::int64_t a = 1; a <= 50; ++a) {
    for (std::int64_t b = 1; b <= 33; ++b) {
      for (std::int64_t c = 1; c <= 9 && a * c <= 100; ++c) expected.insert({a, b, c});
    }
  }
  ASSERT_EQ(space->size(), expected.size());
  std::set<std::vector<std::int64_t>> found;
  for (std::uint64_t rank = 0; rank < *space->size(); ++rank) {
    const PointCode point = space->At(rank);
    EXPECT_TRUE(space->IsValid(point));
    EXPECT_EQ(space->Code(space->Values(point)), point);
    found.insert({space->Value(point, 0), space->Value(point, 1), space->Value(point, 2)});
  }
  EXPECT_EQ(found, expected);
}

TEST(TunableSpace, HoldsTenMillionPointsInLittleMemory) {
  std::vector<Tunable> tunables;  // 10^7 combinations.
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G"})
    tunables.push_back({name, Range(10)});
  std::int64_t calls = 0;
  SpaceConstraint counted{{0, 1}, [&](std::span<const std::int64_t> v) -> absl::StatusOr<bool> {
                            ++calls;
                            return v[0] * v[1] <= 60;
                          }};
  const auto space = TunableSpace::Create(tunables, {counted});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(space->product(), 10000000U);
  std::uint64_t pairs = 0;
  for (int a = 1; a <= 10; ++a) {
    for (int b = 1; b <= 10; ++b) pairs += a * b <= 60 ? 1 : 0;
  }
  EXPECT_EQ(space->size(), pairs * 100000);
  EXPECT_EQ(calls, 100);  // Once per combination of its own tunables, not per point.
  EXPECT_LT(space->memory_bytes(), 2 << 20);
  PointCode last = 0;
  for (std::uint64_t rank = 0; rank < *space->size(); rank += 9973) {
    const PointCode point = space->At(rank);
    EXPECT_TRUE(rank == 0 || point > last);
    EXPECT_LE(space->Value(point, 0) * space->Value(point, 1), 60);
    last = point;
  }
}

TEST(TunableSpace, BeyondEnumerationStillDrawsValidPoints) {
  std::vector<Tunable> tunables;
  for (int i = 0; i < 12; ++i) tunables.push_back({fmt::format("T{}", i), Range(16)});
  const auto space =
      TunableSpace::Create(tunables, {ProductAtMost({0, 1}, 16), ProductAtMost({2, 11}, 8),
                                      ProductAtMost({3, 4, 5, 6, 7, 8}, 5000)});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_FALSE(space->enumerated());
  EXPECT_FALSE(space->size().has_value());
  Random random(1);
  std::set<PointCode> seen;
  for (int i = 0; i < 300; ++i) {
    const auto point = space->Draw(random);
    ASSERT_TRUE(point.has_value());
    EXPECT_TRUE(space->IsValid(*point));
    EXPECT_LE(space->Value(*point, 2) * space->Value(*point, 11), 8);
    seen.insert(*point);
  }
  EXPECT_GT(seen.size(), 290U);
}

TEST(TunableSpace, FindsNeighbours) {
  const auto space =
      TunableSpace::Create({{"A", {1, 2, 3}}, {"B", {1, 2, 3}}}, {ProductAtMost({0, 1}, 6)});
  ASSERT_TRUE(space.ok());
  const auto code = [&](std::int64_t a, std::int64_t b) {
    return *space->Code({{"A", a}, {"B", b}});
  };
  EXPECT_THAT(space->Neighbours(code(3, 1)),
              UnorderedElementsAre(code(1, 1), code(2, 1), code(3, 2)));
  EXPECT_THAT(space->AdjacentNeighbours(code(3, 1)),
              UnorderedElementsAre(code(2, 1), code(3, 2), code(2, 2)));
  EXPECT_FALSE(space->IsValid(code(3, 3)));
}

TEST(TunableSpace, RefusesWhatCannotBeSearched) {
  const auto empty = TunableSpace::Create({{"A", {}}}, {});
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("A has no values"));
  const auto excluded = TunableSpace::Create({{"A", {4}}, {"B", {5}}}, {ProductAtMost({0, 1}, 6)});
  EXPECT_THAT(std::string(excluded.status().message()), HasSubstr("A, B"));
  const auto together = TunableSpace::Create(
      {{"A", {1, 9}}, {"B", {1, 9}}},
      {ProductAtMost({0}, 6), {{0}, [](auto v) -> absl::StatusOr<bool> { return v[0] == 9; }}});
  EXPECT_THAT(std::string(together.status().message()), HasSubstr("together"));
  std::vector<Tunable> many;
  for (int i = 0; i < 22; ++i) many.push_back({fmt::format("T{}", i), Range(8)});
  EXPECT_THAT(std::string(TunableSpace::Create(many, {}).status().message()), HasSubstr("2^62"));
}

TEST(TunableSpace, WithoutTunablesHasOnePoint) {
  const auto space = TunableSpace::Create({}, {});
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(space->size(), 1U);
  EXPECT_TRUE(space->Values(space->At(0)).empty());
}

TEST(TunableSpace, KnowsItsOwnValuesOnly) {
  const auto space = TunableSpace::Create({{"A", {1, 2}}}, {});
  ASSERT_TRUE(space.ok());
  EXPECT_FALSE(space->Code({{"A", 3}}).has_value());
  EXPECT_FALSE(space->Code({{"B", 1}}).has_value());
  EXPECT_FALSE(space->Code({{"A", 1}, {"B", 1}}).has_value());
}

}  // namespace
}  // namespace fettle
