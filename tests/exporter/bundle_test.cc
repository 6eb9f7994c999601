// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "exporter/manifest.h"
#include "exporter/speedup.h"
#include "exporter/verify.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class BundleFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/bundle.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(root_, error);
  }
  fs::path root_;
};

TEST(Bundle, HoldsWhatALibraryNeeds) {
  const BundleFiles files = SampleBundle();
  const json manifest = json::parse(files.at("manifest.json"));
  const std::string digest = manifest["bundle"]["digest"].get<std::string>().substr(0, 8);
  for (const std::string path : {"manifest.json",
                                 "manifest.schema.json",
                                 "README.md",
                                 "LICENSE",
                                 "SHA256SUMS",
                                 "SHA256SUMS.sig",
                                 "signer.pub",
                                 "sbom.spdx.json",
                                 "provenance/slsa.intoto.json",
                                 "provenance/lineage.json",
                                 "task/task.yaml",
                                 "task/kernel.cu",
                                 "task/reference.cc",
                                 "src/build.json",
                                 "src/v1/kernel.cu",
                                 "src/v2/kernel.cu",
                                 "src/baseline/kernel.cu",
                                 "objects/cpu/v1-0.so",
                                 "objects/cpu/v2-0.so",
                                 "objects/cpu/baseline-0.so",
                                 "evidence/v1.json",
                                 "evidence/v2.json",
                                 "include/fettle/runtime.hpp",
                                 "include/fettle/expr.hpp",
                                 "include/fettle/cpu_host.hpp",
                                 "include/fettle/cpu_abi.h",
                                 "include/fettle_ops/scale.hpp",
                                 "reference/fettle_reference.h",
                                 "reference/scale_reference.hpp",
                                 "cmake/fettle_scaleConfig.cmake",
                                 "cmake/fettle_scaleConfigVersion.cmake",
                                 "cmake/fettle_scaleTargets.cmake",
                                 "cmake/fettle_scaleFromSource.cmake",
                                 "integrations/torch/binding.cpp",
                                 "integrations/torch/fettle_torch.hpp",
                                 "integrations/torch/fettle_torch_aten.hpp",
                                 "integrations/torch/fettle_torch_stable.hpp",
                                 "integrations/torch/loader.py",
                                 "integrations/torch/op.py",
                                 "integrations/torch/setup.py",
                                 "integrations/aiter_csv/scale.csv"}) {
    EXPECT_TRUE(files.contains(path)) << path;
  }
  EXPECT_TRUE(files.contains("include/fettle_ops/scale/" + digest + ".hpp"));
  EXPECT_EQ(files.size(), 42U);
}

// The columns mean what AITER's mean: err_ratio is the part of the elements that is wrong.
TEST(Bundle, TunedRowsFollowAitersColumns) {
  FakeBlobs blobs;
  json document = SampleProvenance(blobs, "v1");
  document["verification"]["cases"][0]["outputs"] = {{{"output", "y"},
                                                      {"worst", 0.49},
                                                      {"rms", 0.1},
                                                      {"reference_rms", 1.0},
                                                      {"mismatches", 0},
                                                      {"compared", 4096},
                                                      {"first_index", -1},
                                                      {"expected", 0.0},
                                                      {"actual", 0.0}}};
  const std::vector<VariantProvenance> variants = {Parsed(document)};
  const auto files = BuildBundle(variants, blobs);
  ASSERT_TRUE(files.ok()) << files.status();
  std::stringstream rows(files->at("integrations/aiter_csv/scale.csv"));
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  std::getline(rows, line);
  const std::vector<std::string> names = split(line);
  std::getline(rows, line);
  const std::vector<std::string> cells = split(line);
  ASSERT_EQ(cells.size(), names.size()) << line;
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
  EXPECT_EQ(row["gfx"], "cpu");
  EXPECT_EQ(row["kernelName"], "scale:v1");
  EXPECT_EQ(row["err_ratio"], "0");
  EXPECT_GT(std::stod(row["us"]), 0);
}

TEST(Bundle, ManifestFollowsItsSchemaAndGivesTheTestedEnvelope) {
  const BundleFiles files = SampleBundle();
  const json manifest = json::parse(files.at("manifest.json"));
  const absl::Status valid = CheckSchema(manifest, json::parse(ManifestSchema()));
  EXPECT_TRUE(valid.ok()) << valid;
  const json& variant = manifest["variants"][0];
  EXPECT_EQ(variant["guards"]["envelopes"][0]["dims"]["n"], (json{{"min", 1}, {"max", 4096}}));
  EXPECT_EQ(variant["guards"]["envelopes"][0].value("elements", json()),
            (json{{"x", 4096}, {"y", 4096}}));
  EXPECT_FALSE(variant["guards"]["envelopes"][0].contains("member_elements"));
  EXPECT_EQ(variant["guards"]["pointer_align"], (json{{"x", 256}, {"y", 256}}));
  EXPECT_EQ(variant["kernel"]["values"], (json{{"BLOCK", 128}}));
  EXPECT_EQ(variant["builds"][0]["status"], "run");
  EXPECT_EQ(manifest["fallback"]["kind"], "baseline");
  EXPECT_EQ(manifest["fallback"]["kernel"]["values"], (json{{"BLOCK", 64}}));
  EXPECT_EQ(manifest["fallback"]["builds"][0]["status"], "compiled_only");
}

// Held-out cases have types together that no declared case has: bf16 values with i32 indices.
TEST(Bundle, ABuildThatOnlyHeldOutCasesNeededIsEvidenceAlone) {
  FakeBlobs blobs;
  json document = SampleProvenance(blobs, "v1", 128);
  json other = document["builds"][0];
  other["key"] = std::string(64, 'a');
  document["builds"].push_back(other);
  const auto files = BuildBundle(std::vector<VariantProvenance>{Parsed(document)}, blobs);
  ASSERT_TRUE(files.ok()) << files.status();
  const json manifest = json::parse(files->at("manifest.json"));
  const absl::Status valid = CheckSchema(manifest, json::parse(ManifestSchema()));
  EXPECT_TRUE(valid.ok()) << valid;
  const json& builds = manifest["variants"][0]["builds"];
  ASSERT_EQ(builds.size(), 2u);
  EXPECT_FALSE(builds[0]["serves"].empty());
  EXPECT_TRUE(builds[1]["serves"].empty());
  EXPECT_EQ(json::parse(files->at("src/build.json"))["builds"].size(), 1u);
  const BundleReport report = VerifyBundle(*files);
  for (const BundleProblem& problem : report.problems)
    ADD_FAILURE() << problem.path << ": " << problem.message;
  // One that serves nothing at all is no variant's.
  document["builds"].erase(0);
  EXPECT_FALSE(BuildBundle(std::vector<VariantProvenance>{Parsed(document)}, blobs).ok());
}

TEST(Bundle, WithoutTheBaselinesObjectsTheFallbackIsACallback) {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v1", 128))};
  const auto files = BuildBundle(variants, blobs);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(json::parse(files->at("manifest.json"))["fallback"]["kind"], "callback");
  EXPECT_TRUE(VerifyBundle(*files).problems.empty());
}

TEST(Bundle, AWholeBundleVerifies) {
  const BundleReport report = VerifyBundle(SampleBundle());
  for (const BundleProblem& problem : report.problems)
    ADD_FAILURE() << problem.path << ": " << problem.message;
  EXPECT_EQ(report.signer.size(), 16U);
  EXPECT_TRUE(report.notes.empty());
}

TEST(Bundle, SameVariantsInAnyOrderGiveTheSameBytes) {
  FakeBlobs blobs;
  const VariantProvenance first = Parsed(SampleProvenance(blobs, "v1", 128));
  const VariantProvenance second = Parsed(SampleProvenance(blobs, "v2", 256));
  const std::vector<VariantProvenance> forward = {first, second}, backward = {second, first};
  const auto a = BuildBundle(forward, blobs), b = BuildBundle(backward, blobs);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(PackBundle(*a), PackBundle(*b));
}

TEST(Bundle, PacksAndUnpacks) {
  const BundleFiles files = SampleBundle();
  const auto unpacked = UnpackBundle(PackBundle(files));
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(*unpacked, files);
  EXPECT_FALSE(UnpackBundle("no bundle").ok());
  EXPECT_EQ(UnpackBundle(PackBundle({{"../evil", "x"}})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Bundle, PathsThatLeaveAFolderAreNotPlain) {
  for (const char* path : {"", "/a", "a/", "a//b", "../a", "a/..", "a/./b", "a\\b", "a\nb"}) {
    EXPECT_FALSE(IsPlainPath(path)) << path;
  }
  EXPECT_TRUE(IsPlainPath("sources/v1/kernel.cu"));
}

TEST_F(BundleFolder, WritesReadsReplacesAndVerifies) {
  const BundleFiles files = SampleBundle();
  const std::string path = (root_ / "out").string();
  ASSERT_TRUE(WriteBundle(path, files).ok());
  auto read = ReadBundle(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, files);
  EXPECT_TRUE(VerifyBundle(*read).problems.empty());
  BundleFiles changed = files;
  changed["README.md"] += "\n";
  ASSERT_TRUE(WriteBundle(path, changed).ok());
  EXPECT_EQ(*ReadBundle(path), changed);
  // Nothing temporary stays beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(BundleFolder, NeverOverwritesWhatIsNoBundle) {
  fs::create_directory(root_ / "mine");
  std::ofstream(root_ / "mine" / "thesis.txt") << "years of work";
  std::ofstream(root_ / "file") << "x";
  for (const char* name : {"mine", "file"}) {
    const absl::Status status = WriteBundle((root_ / name).string(), SampleBundle());
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  }
  EXPECT_TRUE(fs::exists(root_ / "mine" / "thesis.txt"));
  fs::create_directory(root_ / "empty");
  EXPECT_TRUE(WriteBundle((root_ / "empty").string(), SampleBundle()).ok());
}

TEST_F(BundleFolder, RerunsAreAddedApartAndAreNotOverwritten) {
  const std::string path = (root_ / "out").string();
  ASSERT_TRUE(WriteBundle(path, SampleBundle()).ok());
  ASSERT_TRUE(AddRerun(path, R"({"rerun":1})").ok());
  ASSERT_TRUE(AddRerun(path, R"({"rerun":2})").ok());
  const BundleReport report = VerifyBundle(*ReadBundle(path));
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.reruns, 2);
  EXPECT_EQ(WriteBundle(path, SampleBundle()).code(), absl::StatusCode::kAlreadyExists);
  BundleFiles files = *ReadBundle(path);
  for (auto& [name, bytes] : files) {
    if (name.starts_with(kRerunFolder) && name.ends_with(".json")) bytes += " ";
  }
  EXPECT_EQ(VerifyBundle(files).problems.size(), 2U);
}

TEST_F(BundleFolder, ALinkInABundleIsRefused) {
  const std::string path = (root_ / "out").string();
  ASSERT_TRUE(WriteBundle(path, SampleBundle()).ok());
  fs::create_symlink("/etc/hostname", root_ / "out" / "extra");
  const absl::Status status = ReadBundle(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(status.message()).find("extra is neither"), std::string::npos) << status;
}

TEST_F(BundleFolder, RerunsAddedAtOnceAreAllListed) {
  const std::string path = (root_ / "out").string();
  ASSERT_TRUE(WriteBundle(path, SampleBundle()).ok());
  EXPECT_TRUE(CanAddRerun(path).ok());
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        if (!AddRerun(path, fmt::format(R"({{"rerun":{}}})", 10 * t + i)).ok()) failed.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 0);
  const BundleReport report = VerifyBundle(*ReadBundle(path));
  for (const BundleProblem& problem : report.problems) ADD_FAILURE() << problem.path;
  EXPECT_EQ(report.reruns, 40);
}

TEST(Rerun, RepeatsTheVariantAgainstItsDenominator) {
  const BundleFiles files = SampleBundle();
  const BundleReport report = VerifyBundle(files);
  ASSERT_EQ(report.variants.size(), 2U);
  const auto rerun = MakeRerun(report.variants[0], files, 1, 2);
  ASSERT_TRUE(rerun.ok()) << rerun.status();
  EXPECT_EQ(rerun->unit.kind, UnitKind::kRerun);
  EXPECT_EQ(rerun->unit.candidate.values.at("BLOCK"), 128);
  EXPECT_EQ(rerun->unit.denominator.values.at("BLOCK"), 64);
  UnitResult result;
  result.verification = report.variants[0].verification;
  result.measurement = report.variants[0].measurement;
  result.builds.push_back({.key = report.variants[0].builds[0].key,
                           .code_object = report.variants[0].builds[0].code_object});
  const RerunOutcome outcome = JudgeRerun(report.variants[0], result);
  EXPECT_TRUE(outcome.passed) << outcome.reason;
  EXPECT_EQ(outcome.objects_equal, 1);
  EXPECT_NEAR(outcome.ratio, 1.2, 0.02);
  result.verdict = VerdictRecord{.verdict = Verdict::kIncorrect, .stage = Stage::kVerify};
  EXPECT_FALSE(JudgeRerun(report.variants[0], result).passed);
  EXPECT_FALSE(JudgeRerun(report.variants[0], result).undecided);
}

// A busy machine says nothing against a variant; what is faster than the hardware allows does.
TEST(Rerun, LeavesOpenWhatCouldNotBeMeasured) {
  const BundleReport report = VerifyBundle(SampleBundle());
  ASSERT_FALSE(report.variants.empty());
  UnitResult result;
  result.verification = report.variants[0].verification;
  result.measurement = report.variants[0].measurement;
  for (CaseMeasurement& one : result.measurement->cases) one.block_log_ratios.resize(9);
  const RerunOutcome few = JudgeRerun(report.variants[0], result);
  EXPECT_FALSE(few.passed);
  EXPECT_TRUE(few.undecided) << few.reason;
  result.measurement.reset();
  for (const auto& [code, open] :
       {std::pair{"too_few_blocks", true}, std::pair{"calibration", true},
        std::pair{"below_floor", false}}) {
    result.verdict = VerdictRecord{
        .verdict = Verdict::kUnmeasurable, .stage = Stage::kConfirm, .reason_code = code};
    EXPECT_EQ(JudgeRerun(report.variants[0], result).undecided, open) << code;
  }
}

}  // namespace
}  // namespace fettle
