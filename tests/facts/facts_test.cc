// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "compiler/facts/code_facts.h"

namespace fettle {
namespace {

std::string Object(const std::string& name) {
  std::ifstream in(std::string(FETTLE_SOURCE_DIR "/tests/data/code_objects/") + name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

CodeFacts Facts(const std::string& name, const std::string& target) {
  auto facts = ReadFacts(Object(name), target);
  EXPECT_TRUE(facts.ok()) << facts.status();
  return facts.ok() ? *std::move(facts) : CodeFacts{};
}

TEST(AmdFacts, ReadsAMatrixKernel) {
  const CodeFacts facts = Facts("facts_kernels.gfx950.co", "gfx950");
  EXPECT_EQ(facts.format, "amdgpu");
  const KernelFacts* gemm = facts.Find("gemm_tile");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->registers, 44);
  EXPECT_EQ(gemm->accumulators, 0);
  EXPECT_EQ(gemm->vgpr_spills, 0);
  EXPECT_EQ(gemm->local_bytes, 0);
  EXPECT_EQ(gemm->shared_bytes, 10240);
  EXPECT_EQ(gemm->max_threads, 256);
  EXPECT_EQ(gemm->occupancy_waves, 8);
  EXPECT_EQ(gemm->occupancy_limit, "none");
  EXPECT_EQ(gemm->matrix, (std::map<std::string, std::int64_t>{{"v_mfma_f32_32x32x16_f16", 2}}));
  EXPECT_EQ(gemm->instructions.at("global_load.b128"), 2);
  EXPECT_EQ(gemm->instructions.at("lds_read.b128"), 4);
  EXPECT_EQ(gemm->instructions.at("lds_write.b128"), 2);
  EXPECT_EQ(gemm->instructions.at("barrier"), 2);
  EXPECT_EQ(gemm->instructions.at("global_store.b32"), 16);
}

TEST(AmdFacts, DiffersByArchitecture) {
  const CodeFacts old = Facts("facts_kernels.gfx90a.co", "gfx90a");
  const CodeFacts mid = Facts("facts_kernels.gfx942.co", "gfx942");
  EXPECT_EQ(old.Find("gemm_tile")->matrix.at("v_mfma_f32_32x32x8f16"), 4);
  EXPECT_EQ(mid.Find("gemm_tile")->matrix.at("v_mfma_f32_32x32x8_f16"), 4);
  // 64 KiB of LDS hold six blocks of 10 KiB, each a wave on every SIMD.
  EXPECT_EQ(mid.Find("gemm_tile")->occupancy_waves, 6);
  EXPECT_EQ(mid.Find("gemm_tile")->occupancy_limit, "lds");
}

TEST(AmdFacts, SeesSpillsAndAtomics) {
  const CodeFacts facts = Facts("facts_kernels.gfx950.co", "");
  const KernelFacts* spills = facts.Find("spills");
  ASSERT_NE(spills, nullptr);
  EXPECT_EQ(spills->registers, 128);
  EXPECT_EQ(spills->vgpr_spills, 129);
  EXPECT_EQ(spills->local_bytes, 520);
  EXPECT_EQ(spills->occupancy_waves, 4);
  EXPECT_EQ(spills->occupancy_limit, "vgpr");
  EXPECT_EQ(spills->instructions.at("scratch_store.b32"), 129);
  EXPECT_EQ(spills->instructions.at("scratch_load.b32"), 145);
  const KernelFacts* count = facts.Find("count_bytes");
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(count->instructions.at("lds_atomic"), 1);
  EXPECT_EQ(count->instructions.at("global_atomic"), 2);
  EXPECT_EQ(count->instructions.at("lane_exchange"), 1);
  EXPECT_EQ(count->instructions.at("global_load.b8"), 1);
}

TEST(CubinFacts, ReadsKernels) {
  const CodeFacts facts = Facts("facts_kernels.sm_90a.cubin", "sm_90a");
  EXPECT_EQ(facts.format, "cubin");
  EXPECT_EQ(facts.arch, "sm_90");
  const KernelFacts* gemm = facts.Find("gemm_tile");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->shared_bytes, 2 * 64 * 16 * 2);
  EXPECT_EQ(gemm->max_threads, 256);
  EXPECT_EQ(gemm->parameter_bytes, 28);
  EXPECT_EQ(gemm->registers, 32);
  EXPECT_EQ(gemm->matrix.at("HMMA"), 10);
  EXPECT_EQ(gemm->instructions.at("global_load.b128"), 10);
  EXPECT_EQ(gemm->instructions.at("lds_read_matrix"), 10);
  EXPECT_EQ(gemm->instructions.at("barrier"), 10);
  const KernelFacts* spills = facts.Find("spills");
  ASSERT_NE(spills, nullptr);
  EXPECT_EQ(spills->registers, 64);
  EXPECT_EQ(spills->local_bytes, 864);
  EXPECT_EQ(spills->instructions.at("local_store.b32"), 273);
  EXPECT_EQ(spills->occupancy_waves, 32);
  EXPECT_EQ(spills->occupancy_limit, "registers");
  EXPECT_EQ(facts.Find("count_bytes")->shared_bytes, 1024);
}

TEST(Facts, RefuseWhatTheyAreNotFor) {
  const std::string object = Object("facts_kernels.gfx950.co");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFacts(object, "gfx942").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFacts("", "gfx950").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFacts(".version 9.0\n.target sm_90a", "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFacts(std::string("\177ELF", 4), "").status()));
}

TEST(Facts, BecomeJsonWithoutUnknowns) {
  const nlohmann::json json = ToJson(Facts("facts_kernels.sm_90a.cubin", ""));
  EXPECT_EQ(json["arch"], "sm_90");
  ASSERT_EQ(json["kernels"].size(), 3U);
  EXPECT_EQ(json["kernels"][0]["name"], "count_bytes");
  EXPECT_FALSE(json["kernels"][0].contains("sgprs"));
  EXPECT_TRUE(json["kernels"][0]["occupancy"].contains("limit"));
}

// Damaged bytes end in a status or in odd numbers, never in a crash (run under asan for the rest).
TEST(Facts, SurviveDamage) {
  std::mt19937 random(20240607);
  for (const char* name :
       {"facts_kernels.gfx90a.co", "facts_kernels.gfx950.co", "facts_kernels.sm_90a.cubin"}) {
    const std::string whole = Object(name);
    ASSERT_FALSE(whole.empty());
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      (void)ReadFacts(std::string_view(whole).substr(0, size), "");
    }
    for (int round = 0; round < 400; ++round) {
      std::string damaged = whole;
      const int flips = 1 + static_cast<int>(random() % 64);
      for (int i = 0; i < flips; ++i) {
        // Half of the damage goes to the headers, where it hurts most.
        const std::size_t range =
            i % 2 == 0 ? std::min<std::size_t>(256, damaged.size()) : damaged.size();
        damaged[random() % range] = static_cast<char>(random());
      }
      damaged.replace(0, 4, "\177ELF");
      (void)ReadFacts(damaged, "");
    }
  }
}

TEST(Occupancy, FollowsTheHardwaresUnits) {
  // 160 KiB: five tiles of 32 KiB, as LLVM counts; four of one byte more.
  EXPECT_EQ(AmdOccupancy("gfx950", 32, 32, 32 * 1024, 256).waves, 5);
  EXPECT_EQ(AmdOccupancy("gfx950", 32, 32, 32 * 1024 + 1, 256).waves, 4);
  EXPECT_EQ(AmdOccupancy("gfx942", 129, 32, 0, 256).waves, 3);
  EXPECT_EQ(AmdOccupancy("gfx942", 512, 32, 0, 256).waves, 1);
  EXPECT_EQ(NvidiaOccupancy(90, 32, 0, 1024).waves, 64);
  EXPECT_EQ(NvidiaOccupancy(90, 255, 0, 256).waves, 8);
  EXPECT_EQ(NvidiaOccupancy(90, 32, 100 * 1024, 256).waves, 16);
}

}  // namespace
}  // namespace fettle
