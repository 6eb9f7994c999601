// SPDX-License-Identifier: Apache-2.0
// An owner of another device runs what was only compiled for it, and takes the evidence in.
#include "core/digest.h"
#include "exporter/bundle_runs.h"
#include "exporter/manifest.h"
#include "exporter/verify.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

using nlohmann::json;

// What `fettle verify --rerun` adds on a device for gfx950.
json RerunDocument(const BundleFiles& files, const std::function<void(UnitResult&)>& change) {
  const auto parts = ReadParts(files);
  EXPECT_TRUE(parts.ok()) << parts.status();
  const VariantProvenance& variant = parts->variants.front();
  UnitResult result;
  result.verification = variant.verification;
  result.measurement = variant.measurement;
  result.measurement->device = {{"model", "MI350X"}};
  for (const ExtraBuild& build : parts->extras.builds) {
    if (build.kernel != variant.id || build.target != "gfx950") continue;
    result.builds.push_back({.key = build.key,
                             .code_object = Sha256Hex(build.code_object),
                             .entries = build.entries,
                             .symbols = build.symbols});
  }
  EXPECT_FALSE(result.builds.empty());
  change(result);
  return JudgeRerun(variant, "gfx950", result).evidence;
}

BundleFiles WithRerun(const BundleFiles& files, const json& document) {
  BundleFiles out = files;
  out[std::string(kRerunFolder) + "0123456789abcdef.json"] = document.dump() + "\n";
  return out;
}

std::string HeaderOf(const BundleFiles& files) {
  for (const auto& [path, bytes] : files) {
    if (path.starts_with("include/fettle_ops/row_sum/")) return bytes;
  }
  return "";
}

TEST(Runs, ARerunThatPassedMakesCompiledOnlyRun) {
  const BundleFiles before = GuardGpuBundle({"gfx950"});
  const json document = RerunDocument(before, [](UnitResult&) {});
  ASSERT_EQ(document["status"], "run") << document["reason"];
  std::vector<std::string> notes;
  const auto after = TakeReruns(WithRerun(before, document), &notes);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(notes.empty());
  const json manifest = json::parse(after->at("manifest.json"));
  const json& variant = manifest["variants"][0];
  for (const json& build : variant["builds"]) EXPECT_EQ(build["status"], "run") << build["target"];
  EXPECT_EQ(variant["runs"][0]["target"], "gfx950");
  EXPECT_EQ(variant["runs"][0]["device"], "MI350X");
  EXPECT_GT(variant["runs"][0]["ratio_low"], 1);
  const absl::Status valid = CheckSchema(manifest, json::parse(ManifestSchema()));
  EXPECT_TRUE(valid.ok()) << valid;
  EXPECT_TRUE(after->contains("evidence/runs/0123456789abcdef.json"));
  // Neither variant nor fallback is held back there any more.
  EXPECT_NE(HeaderOf(before).find("Evidence::kCompiledOnly"), std::string::npos);
  EXPECT_EQ(HeaderOf(*after).find("Evidence::kCompiledOnly"), std::string::npos);
  EXPECT_NE(after->at("integrations/aiter_csv/row_sum.csv").find("\ngfx950,"), std::string::npos);
  EXPECT_NE(after->at("README.md").find("gfx950 | MI350X"), std::string::npos);
  EXPECT_NE(after->at("manifest.json"), before.at("manifest.json"));
  // Laid out again from itself it is the same, so that verify can check it.
  const auto parts = ReadParts(*after);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(*LayOutAgain(*parts, *after), *after);
}

TEST(Runs, EmulatedIsNotCalledRun) {
  const BundleFiles before = GuardGpuBundle({"gfx950"});
  const json document = RerunDocument(before, [](UnitResult& result) {
    result.measurement.reset();
    result.verdict = VerdictRecord{
        .verdict = Verdict::kUnmeasurable, .stage = Stage::kMeasure, .reason_code = "emulated"};
  });
  ASSERT_EQ(document["status"], "emulated") << document["reason"];
  std::vector<std::string> notes;
  const auto after = TakeReruns(WithRerun(before, document), &notes);
  ASSERT_TRUE(after.ok()) << after.status();
  const json manifest = json::parse(after->at("manifest.json"));
  for (const json& build : manifest["variants"][0]["builds"]) {
    EXPECT_EQ(build["status"], build["target"] == "gfx950" ? "emulated" : "run");
  }
}

TEST(Runs, WhatDoesNotShowItIsNotTaken) {
  const BundleFiles before = GuardGpuBundle({"gfx950"});
  const auto refusal = [&](const json& document) {
    std::vector<std::string> notes;
    const auto after = TakeReruns(WithRerun(before, document), &notes);
    EXPECT_EQ(after.status().code(), absl::StatusCode::kNotFound) << after.status();
    return notes.empty() ? std::string() : notes[0];
  };
  const auto expect = [&](const std::string& why, const std::function<void(UnitResult&)>& change) {
    const std::string said = refusal(RerunDocument(before, change));
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  expect("it did not pass", [](UnitResult& result) { result.verification->passed = false; });
  expect("it did not pass", [](UnitResult& result) {
    for (CaseMeasurement& entry : result.measurement->cases) {
      for (TimingBlock& block : entry.blocks) block.a_ns = block.b_ns;
      for (double& ratio : entry.block_log_ratios) ratio = 0;
      entry.ratio = 1;
    }
  });
  expect("case checked/0 was not verified",
         [](UnitResult& result) { result.verification->cases.resize(3); });
  expect("was not measured", [](UnitResult& result) { result.measurement->cases.pop_back(); });
  expect("compile them with the same compiler", [](UnitResult& result) {
    for (BuildRecord& build : result.builds) build.code_object = std::string(64, 'a');
  });
  json document = RerunDocument(before, [](UnitResult&) {});
  document["ratio"] = 9.0;
  EXPECT_NE(refusal(document).find("do not follow from its samples"), std::string::npos);
  document = RerunDocument(before, [](UnitResult&) {});
  document["variant"] = "other";
  EXPECT_NE(refusal(document).find("'other' is not in the bundle"), std::string::npos);
  EXPECT_NE(refusal(json("odd")).find("is not in the bundle"), std::string::npos);
}

// Whoever writes "run" into a bundle without evidence is found out.
TEST(Runs, WhatNestsWithoutEndIsNotTaken) {
  BundleFiles files = GuardGpuBundle({"gfx950"});
  std::string deep = fmt::format(R"({{"variant":"{}","target":"gfx950","status":"run","result":)",
                                 ReadParts(files)->variants.front().id);
  deep += std::string(100'000, '[') + std::string(100'000, ']') + "}";
  files[std::string(kRerunFolder) + "0123456789abcdef.json"] = deep;
  std::vector<std::string> notes;
  EXPECT_EQ(TakeReruns(files, &notes).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(notes.size(), 1U);
  // Taken in by another hand, and in a library's bundle.
  BundleParts parts = *ReadParts(GuardGpuBundle({"gfx950"}));
  parts.extras.runs["0123456789abcdef.json"] = deep;
  EXPECT_FALSE(LayOutAgain(parts, files).ok());
}

TEST(Runs, AStatusWithoutItsRunIsRefused) {
  BundleFiles files = GuardGpuBundle({"gfx950"});
  json list = json::parse(files["src/build.json"]);
  for (json& build : list["builds"]) build["status"] = "run";
  files["src/build.json"] = list.dump(2) + "\n";
  const auto parts = ReadParts(files);
  EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument) << parts.status();
}

}  // namespace
}  // namespace fettle
