// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_changes.h"
#include "core/random.h"

namespace fettle {
namespace {

KernelUnderTest Kernel(const std::string& source, TunableValues values) {
  KernelUnderTest kernel;
  kernel.kernel.source_name = "kernel.cu";
  kernel.kernel.source = source;
  for (const auto& [name, value] : values) kernel.kernel.tunables.push_back({name, {value}});
  kernel.values = std::move(values);
  return kernel;
}

TEST(Explain, FindsHunksAndTunables) {
  const KernelUnderTest parent = Kernel("a\nb\nc\nd\ne\nf\n", {{"BLOCK", 64}, {"VEC", 1}});
  const KernelUnderTest winner = Kernel("a\nB\nc\nd\ne\nf\ng\n", {{"BLOCK", 128}, {"VEC", 1}});
  const std::vector<VariantChange> changes = ChangesBetween(parent, winner);
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].label, "kernel.cu:2: 1 line for 1");
  EXPECT_EQ(changes[1].label, "kernel.cu:7: 1 line for 0");
  EXPECT_EQ(changes[2].label, "BLOCK: 128 for 64");
  const KernelUnderTest half = ApplyChanges(parent, winner, changes, {false, true, true});
  EXPECT_EQ(half.kernel.source, "a\nb\nc\nd\ne\nf\ng\n");
  EXPECT_EQ(half.values.at("BLOCK"), 128);
}

TEST(Explain, AnotherPlanIsOneChange) {
  const KernelUnderTest parent = Kernel("a\n", {{"BLOCK", 64}});
  const KernelUnderTest winner = Kernel("a\n", {{"ROWS", 4}});
  const std::vector<VariantChange> changes = ChangesBetween(parent, winner);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, VariantChange::Kind::kPlan);
  EXPECT_EQ(ApplyChanges(parent, winner, changes, {true}).values, winner.values);
  EXPECT_EQ(ApplyChanges(parent, winner, changes, {false}).values, parent.values);
}

// All changes give the winner, none the parent, on random texts.
TEST(Explain, AllChangesMakeTheWinnerAndNoneTheParent) {
  Random random(3);
  const auto text = [&] {
    std::string out;
    for (std::uint64_t i = random.Below(30); i > 0; --i)
      out += std::string(1, static_cast<char>('a' + random.Below(5))) + "\n";
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    const KernelUnderTest parent = Kernel(text(), {{"B", 1}}), winner = Kernel(text(), {{"B", 2}});
    const std::vector<VariantChange> changes = ChangesBetween(parent, winner);
    EXPECT_EQ(ApplyChanges(parent, winner, changes, std::vector<bool>(changes.size(), true))
                  .kernel.source,
              winner.kernel.source);
    EXPECT_EQ(ApplyChanges(parent, winner, changes, std::vector<bool>(changes.size(), false))
                  .kernel.source,
              parent.kernel.source);
  }
}

// An interval around 1 shows nothing: the change is neither needed nor dropped.
TEST(Explain, OnlyAClearLossMakesAChangeNeeded) {
  EXPECT_EQ(WorthOf(/*works=*/true, 1.7, 2.5), ChangeWorth::kNeeded);
  EXPECT_EQ(WorthOf(/*works=*/false, 0, 0), ChangeWorth::kNeeded);
  EXPECT_EQ(WorthOf(/*works=*/true, 0.775, 1.026), ChangeWorth::kUnclear);
  EXPECT_EQ(WorthOf(/*works=*/true, 0.9, 1.005), ChangeWorth::kNotNeeded);
  EXPECT_EQ(WorthOf(/*works=*/true, 0.5, 0.8), ChangeWorth::kNotNeeded);
}

}  // namespace
}  // namespace fettle
