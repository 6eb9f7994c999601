// SPDX-License-Identifier: Apache-2.0
#include "core/target.h"

namespace fettle {
namespace {

TEST(FindTarget, KnowsEveryBuiltInTarget) {
  for (const std::string name :
       {"cpu", "gfx90a", "gfx942", "gfx950", "sm_80", "sm_90a", "sm_100a"}) {
    const auto target = FindTarget(name);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(target->name, name);
    EXPECT_GT(target->lds, 0);
    EXPECT_GT(target->cus, 0);
    EXPECT_EQ(target->wave, target->vendor == Vendor::kAmd ? 64 : 32);
  }
  EXPECT_EQ(FindTarget("gfx950")->lds, 163840);
  EXPECT_EQ(FindTarget("sm_90a")->lds, 232448);
}

TEST(FindTarget, ListsTheKnownNames) {
  const auto missing = FindTarget("sm_9");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), ::testing::HasSubstr("sm_90a"));
}

TEST(TargetVariables, NamesWhatExpressionsMayUse) {
  const auto variables = TargetVariables(*FindTarget("gfx942"));
  EXPECT_EQ(variables.at("wave"), 64);
  EXPECT_EQ(variables.at("max_block"), 1024);
  EXPECT_EQ(variables.at("cus"), 304);
}

}  // namespace
}  // namespace fettle
