// SPDX-License-Identifier: Apache-2.0
#include "core/work_unit.h"

namespace fettle {
namespace {

using nlohmann::json;

KernelSpec SampleKernel() {
  KernelSpec kernel;
  kernel.source_name = "kernel.cu";
  kernel.source = "__global__ void f() {}";
  kernel.headers = {{"helpers.h", "#pragma once\n"}};
  kernel.dialect = Dialect::kHip;
  kernel.lanes = 0;
  kernel.tunables = {{"ZED", {1, 2}}, {"BLOCK", {64, 128, 256}}};
  kernel.values = {{"BLOCK", 64}, {"ZED", 2}};
  kernel.constraints = {*Expr::Parse("BLOCK % target.wave == 0")};
  kernel.guards = {*Expr::Parse("cols % 4 == 0")};
  kernel.launches = json::array({{{"kernel", "f"}, {"grid", {"1", "1", "1"}}}});
  kernel.workspace = json::array();
  return kernel;
}

TEST(KernelSpecJson, RoundTripsAndKeepsTheOrderOfTunables) {
  const json first = ToJson(SampleKernel());
  const auto back = KernelSpecFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
  EXPECT_EQ(back->tunables[0].name, "ZED");
}

TEST(KernelSpecJson, RefusesWhatItDoesNotKnow) {
  json extra = ToJson(SampleKernel());
  extra["flags"] = "-O3";
  EXPECT_FALSE(KernelSpecFromJson(extra).ok());
  json bad = ToJson(SampleKernel());
  bad["constraints"] = {"1 +"};
  EXPECT_THAT(std::string(KernelSpecFromJson(bad).status().message()),
              ::testing::HasSubstr("column 4"));
  bad = ToJson(SampleKernel());
  bad["lanes"] = 16;
  EXPECT_FALSE(KernelSpecFromJson(bad).ok());
}

TEST(CandidateDigest, DependsOnWhatIsCompiledAndRunAlone) {
  const KernelSpec kernel = SampleKernel();
  const TunableValues values = {{"BLOCK", 64}, {"ZED", 2}};
  const std::string digest = CandidateDigest("t", "cpu", kernel, values);
  EXPECT_EQ(digest.size(), 64u);
  KernelSpec wider = kernel;
  wider.tunables[0].values.push_back(9);
  EXPECT_EQ(CandidateDigest("t", "cpu", wider, values), digest);
  KernelSpec other = kernel;
  other.source += " ";
  EXPECT_NE(CandidateDigest("t", "cpu", other, values), digest);
  EXPECT_NE(CandidateDigest("t", "gfx950", kernel, values), digest);
  EXPECT_NE(CandidateDigest("u", "cpu", kernel, values), digest);
  EXPECT_NE(CandidateDigest("t", "cpu", kernel, {{"BLOCK", 128}, {"ZED", 2}}), digest);
}

TEST(SpaceSize, MultipliesAndSaturates) {
  EXPECT_EQ(SpaceSize({}), 1);
  EXPECT_EQ(SpaceSize(SampleKernel().tunables), 6);
  const std::vector<Tunable> many(70, Tunable{"A", {1, 2}});
  EXPECT_EQ(SpaceSize(many), std::numeric_limits<std::int64_t>::max());
}

TEST(WorkUnitJson, RoundTrips) {
  WorkUnit unit;
  unit.id = "u1";
  unit.kind = UnitKind::kConfirm;
  unit.candidate = {"d1", SampleKernel(), {{"BLOCK", 64}}};
  unit.denominator = {"d2", SampleKernel(), {}};
  unit.incumbent = unit.candidate;
  unit.seed = std::numeric_limits<std::uint64_t>::max();
  unit.search_seeds = {unit.seed, 3};
  const json first = ToJson(unit);
  const auto back = WorkUnitFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
  EXPECT_EQ(back->seed, unit.seed);
  EXPECT_EQ(back->search_seeds, unit.search_seeds);
  json bad = first;
  bad["kind"] = "guess";
  EXPECT_FALSE(WorkUnitFromJson(bad).ok());
}

TEST(UnitResultJson, RoundTripsWithAndWithoutItsParts) {
  UnitResult result;
  result.unit_id = "u1";
  for (const bool full : {false, true}) {
    if (full) {
      result.verdict = VerdictRecord{Verdict::kNoWin, Stage::kScreen, "screened", "", "slow", {}};
      result.builds.push_back({"k", "abc", {"f"}, {"_f"}, "g++", true, 5, "", json::array(), {}});
      result.measurement = Measurement{};
      result.environment = {{"host", "h"}};
    }
    const json first = ToJson(result);
    const auto back = UnitResultFromJson(json::parse(first.dump()));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(ToJson(*back), first);
    EXPECT_EQ(back->verdict.has_value(), full);
  }
}

TEST(TaskFiles, PackToOneBlobAndBack) {
  const TaskFiles files = {{"task.yaml", "format: 1\n"}, {"a/b.npy", std::string("\0\xff\x80", 3)}};
  const std::string blob = PackTaskFiles(files);
  EXPECT_EQ(UnpackTaskFiles(blob).value(), files);
  EXPECT_EQ(PackTaskFiles(*UnpackTaskFiles(blob)), blob);
  for (const std::string bad :
       {"", "[]", "{}", "{\"files\":{\"a\":1}}", "{\"files\":{\"a\":\"!\"}}"}) {
    EXPECT_FALSE(UnpackTaskFiles(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace fettle
