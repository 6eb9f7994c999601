// SPDX-License-Identifier: Apache-2.0
#include "core/target.h"

#include "core/portable_target.h"

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

TEST(FindTarget, PtxIsForLaterArchitecturesSoThereIsNoneOfOneAlone) {
  for (const std::string name : {"compute_80", "compute_90", "compute_100"}) {
    const auto target = FindTarget(name);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_TRUE(IsPortable(*target));
    EXPECT_EQ(target->name, name);
    EXPECT_EQ(target->vendor, Vendor::kNvidia);
  }
  EXPECT_FALSE(IsPortable(*FindTarget("sm_80")));
  EXPECT_TRUE(FindDeviceTarget("sm_80").ok());
  const auto device = FindDeviceTarget("compute_90");
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.status().message()), ::testing::HasSubstr("name a device's"));
  const auto one = FindTarget("compute_90a");
  EXPECT_EQ(one.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(one.status().message()),
              ::testing::HasSubstr("runs on that one alone; take sm_90a or compute_90"));
}

TEST(TargetVariables, NamesWhatExpressionsMayUse) {
  const auto variables = TargetVariables(*FindTarget("gfx942"));
  EXPECT_EQ(variables.at("wave"), 64);
  EXPECT_EQ(variables.at("max_block"), 1024);
  EXPECT_EQ(variables.at("cus"), 304);
}

}  // namespace
}  // namespace fettle
