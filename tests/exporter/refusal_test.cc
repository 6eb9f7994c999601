// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>

#include "compiler/facts/code_facts.h"
#include "core/work_unit.h"
#include "exporter/evidence_check.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

using nlohmann::json;

// The refusal of exporting the sample with one change.
absl::Status Refusal(const std::function<void(json&, FakeBlobs&)>& change) {
  FakeBlobs blobs;
  json document = SampleProvenance(blobs, "v1");
  change(document, blobs);
  auto variant = ParseProvenance(document.dump());
  if (!variant.ok()) return variant.status();
  const std::vector<VariantProvenance> variants = {*std::move(variant)};
  return BuildBundle(variants, blobs).status();
}

std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(FETTLE_SOURCE_DIR) + "/tests/data/code_objects/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void ExpectRefused(const std::function<void(json&, FakeBlobs&)>& change, const std::string& why,
                   absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
  const absl::Status status = Refusal(change);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(why), std::string::npos)
      << status << "\nexpected: " << why;
}

TEST(Refusal, TheSampleItselfIsExported) {
  const absl::Status status = Refusal([](json&, FakeBlobs&) {});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Refusal, ADemotedVariantIsStale) {
  ExpectRefused([](json& d, FakeBlobs&) { d["variant"]["status"] = "demoted"; }, "demoted");
}

TEST(Refusal, MissingEvidence) {
  ExpectRefused([](json& d, FakeBlobs&) { d.erase("measurement"); }, "/measurement is missing",
                absl::StatusCode::kInvalidArgument);
  ExpectRefused([](json& d, FakeBlobs&) { d["measurement"]["cases"] = json::array(); },
                "no measurement of case timed/0");
  ExpectRefused([](json& d, FakeBlobs&) { d["verification"]["cases"].erase(1); },
                "no verification of case checked/0");
  ExpectRefused([](json& d, FakeBlobs&) { d["builds"] = json::array(); }, "no code object");
}

TEST(Refusal, AnErrorThatASanitizerFound) {
  ExpectRefused(
      [](json& d, FakeBlobs&) {
        d["verification"]["sanitizers"] = {{"memcheck", "passed"},
                                           {"racecheck", "failed: Race reported, at scale()+0x70"}};
      },
      "racecheck found an error");
  // Not run is no error, and no reason to refuse; the evidence says so.
  const absl::Status kept = Refusal([](json& d, FakeBlobs&) {
    d["verification"]["sanitizers"] = {{"memcheck", "not_run: Device not supported"}};
  });
  EXPECT_TRUE(kept.ok()) << kept;
}

TEST(Refusal, AnIntervalThatReachesDownToOne) {
  ExpectRefused([](json& d, FakeBlobs&) { d["variant"]["ratio_low"] = 1.0; }, "not above 1");
}

TEST(Refusal, AMeasurementThatIsNoWin) {
  ExpectRefused(
      [](json& d, FakeBlobs&) {
        json& entry = d["measurement"]["cases"][0];
        for (json& block : entry["blocks"]) block["a_ns"] = block["b_ns"];
        for (json& ratio : entry["block_log_ratios"]) ratio = 0.0;
        entry["ratio"] = 1.0;
      },
      "no win");
}

TEST(Refusal, AnErrorOfTheCheckingRuntime) {
  ExpectRefused(
      [](json& d, FakeBlobs&) {
        d["verification"]["check_mode"] = "failed: out of bounds read in kernel.cu:7";
      },
      "the checking runtime found an error: failed: out of bounds read in kernel.cu:7");
  ExpectRefused(
      [](json& d, FakeBlobs&) {
        d["verification"]["passed"] = false;
        d["verification"]["failure"] = {{"verdict", "INCORRECT"},
                                        {"stage", "verify"},
                                        {"reason_code", "mismatch"},
                                        {"message", "y is wrong"}};
      },
      "its verification did not pass");
  ExpectRefused([](json& d, FakeBlobs&) { d["verification"]["cases"][1]["passed"] = false; },
                "case checked/0 failed verification");
}

TEST(Refusal, RatiosThatDoNotFollowFromTheSamples) {
  ExpectRefused([](json& d, FakeBlobs&) { d["measurement"]["cases"][0]["ratio"] = 2.0; },
                "the recorded ratio of case timed/0 does not follow from its raw samples");
  ExpectRefused([](json& d, FakeBlobs&) { d["variant"]["ratio"] = 2.0; },
                "the recorded ratio 2.000000 is not that of its samples");
}

TEST(Refusal, ResourcesOtherThanTheObjectsOwn) {
  const std::string object = ReadTestFile("facts_kernels.sm_90a.cubin");
  const auto facts = ReadFacts(object, "sm_90a");
  ASSERT_TRUE(facts.ok()) << facts.status();
  const auto built = [&](json& d, FakeBlobs& blobs) {
    json build = d["builds"][0];
    build["target"] = "sm_90a";
    build["code_object"] = *blobs.Put(object);
    build["facts"] = ToJson(*facts);
    d["builds"].push_back(build);
  };
  // As they are they are no reason to refuse.
  const absl::Status whole = Refusal(built);
  EXPECT_TRUE(whole.ok()) << whole;
  ExpectRefused(
      [&](json& d, FakeBlobs& blobs) {
        built(d, blobs);
        json& kernel = d["builds"].back()["facts"]["kernels"][0];
        for (auto& [name, value] : kernel.items()) {
          if (value.is_number_integer()) value = value.get<std::int64_t>() + 1;
        }
      },
      "are not what its bytes say");
}

TEST(Refusal, WhatMustNotLeaveTheMachine) {
  const std::pair<std::string, std::string> secrets[] = {
      {"// -----BEGIN PRIVATE KEY-----", "holds a private key"},
      {"// ghp_" + std::string(36, 'a'), "holds an access token"},
      {"// built in /home/someone/kernels", "holds the path /home/someone/kernels"}};
  for (const auto& [text, why] : secrets) {
    ExpectRefused(
        [&](json& d, FakeBlobs& blobs) {
          d = SampleProvenance(blobs, "v1", 128, SampleTaskYaml() + "# " + text + "\n");
        },
        why);
  }
}

TEST(Refusal, AnUnknownLicence) {
  ExpectRefused(
      [](json& d, FakeBlobs& blobs) {
        std::string yaml = SampleTaskYaml();
        yaml.replace(yaml.find("Apache-2.0"), 10, "Own-9");
        d = SampleProvenance(blobs, "v1", 128, yaml);
      },
      "unknown licence");
  EXPECT_TRUE(IsKnownLicense("MIT"));
  EXPECT_TRUE(IsKnownLicense("LicenseRef-mine"));
  EXPECT_FALSE(IsKnownLicense(""));
  EXPECT_FALSE(IsKnownLicense("LicenseRef-"));
  EXPECT_FALSE(IsKnownLicense("NOASSERTION"));
}

TEST(Refusal, ATamperedOrMissingBlob) {
  ExpectRefused(
      [](json& d, FakeBlobs& blobs) {
        blobs.Damage(d["builds"][0]["code_object"].get<std::string>());
      },
      "its bytes were changed", absl::StatusCode::kDataLoss);
  ExpectRefused(
      [](json& d, FakeBlobs& blobs) { blobs.blobs.erase(d["task"]["blob"].get<std::string>()); },
      "no such blob", absl::StatusCode::kNotFound);
}

TEST(Refusal, AChangedTask) {
  ExpectRefused(
      [](json& d, FakeBlobs& blobs) {
        std::string yaml = SampleTaskYaml();
        yaml.replace(yaml.find("rtol: 1.0e-6"), 12, "rtol: 1.0e+6");
        d["task"]["blob"] = SampleProvenance(blobs, "v1", 128, yaml)["task"]["blob"];
      },
      "the task was changed");
}

TEST(Refusal, EvidenceOfAnotherCandidate) {
  ExpectRefused([](json& d, FakeBlobs&) { d["variant"]["values"]["BLOCK"] = 256; },
                "for another candidate");
  ExpectRefused(
      [](json& d, FakeBlobs&) {
        d["kernel"]["source"] = d["kernel"]["source"].get<std::string>() + "\n// faster\n";
      },
      "for another candidate");
}

// A slower denominator would make any kernel fast.
TEST(Refusal, AnotherDenominatorThanWasMeasured) {
  const auto named = [](json& d, const TunableValues& values) {
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(*UnpackTaskFiles(d["files"].get<std::string>()), &problems);
    d.erase("files");
    d["denominator"]["digest"] = CandidateDigest((*task)->digest(), d["target"].get<std::string>(),
                                                 (*task)->baseline(), values);
  };
  const absl::Status whole = Refusal([&](json& d, FakeBlobs& blobs) {
    d["files"] = *blobs.Get(d["task"]["blob"].get<std::string>());
    named(d, {{"BLOCK", 64}});
  });
  EXPECT_TRUE(whole.ok()) << whole;
  ExpectRefused(
      [&](json& d, FakeBlobs& blobs) {
        d["files"] = *blobs.Get(d["task"]["blob"].get<std::string>());
        named(d, {{"BLOCK", 128}});
      },
      "its denominator is not the one that was measured");
}

TEST(Refusal, MixedTasksAndRepeatedVariants) {
  FakeBlobs blobs;
  std::string yaml = SampleTaskYaml();
  yaml.replace(yaml.find("name: scale"), 11, "name: other");
  const VariantProvenance one = Parsed(SampleProvenance(blobs, "v1"));
  const VariantProvenance other = Parsed(SampleProvenance(blobs, "v2", 128, yaml));
  const std::vector<VariantProvenance> mixed = {one, other}, twice = {one, one}, none;
  EXPECT_EQ(BuildBundle(mixed, blobs).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildBundle(twice, blobs).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildBundle(none, blobs).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Refusal, AVersionThatCmakeCannotRead) {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v1"))};
  for (const std::string version :
       {"banana", "", "1", "1.2", "1.2.3.4", "1..3", "1.2.x", "1.2.3\");", "1234567.0.0"}) {
    BundleExtras extras;
    extras.version = version;
    const absl::Status status = BuildBundle(variants, blobs, extras).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << version;
    EXPECT_NE(std::string(status.message()).find("three numbers are needed"), std::string::npos)
        << status;
  }
  BundleExtras extras;
  extras.version = "10.0.12";
  EXPECT_TRUE(BuildBundle(variants, blobs, extras).ok());
}

TEST(Refusal, AnIdThatIsNoFileName) {
  ExpectRefused([](json& d, FakeBlobs&) { d["variant"]["id"] = "../../etc"; }, "/variant/id",
                absl::StatusCode::kInvalidArgument);
}

TEST(Refusal, AMalformedDocumentNamesTheField) {
  ExpectRefused([](json& d, FakeBlobs&) { d["builds"][0]["code_object"] = "abc"; },
                "/builds/0/code_object", absl::StatusCode::kInvalidArgument);
  ExpectRefused([](json& d, FakeBlobs&) { d["format"] = 2; }, "/format",
                absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fettle
