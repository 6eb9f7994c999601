// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "core/digest.h"
#include "exporter/signature.h"
#include "exporter/verify.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

using nlohmann::json;

bool Names(const BundleReport& report, const std::string& path) {
  for (const BundleProblem& problem : report.problems) {
    if (problem.path == path) return true;
  }
  return false;
}

// What an attacker who fixes the checksums would leave.
void FixChecksums(BundleFiles& files) {
  for (const char* path : {"SHA256SUMS", "SHA256SUMS.sig", "signer.pub"}) files.erase(path);
  files["SHA256SUMS"] = Checksums(files);
}

// As above, and the manifest's own digests too.
void FixManifest(BundleFiles& files) {
  json manifest = json::parse(files["manifest.json"]);
  const std::function<void(json&)> fix = [&](json& value) {
    if (value.is_object() && value.contains("sha256")) {
      const std::string& bytes = files[value["path"].get<std::string>()];
      value["sha256"] = Sha256Hex(bytes);
      value["bytes"] = bytes.size();
    } else if (value.is_structured()) {
      for (json& member : value) fix(member);
    }
  };
  fix(manifest);
  files["manifest.json"] = manifest.dump(2) + "\n";
  FixChecksums(files);
}

TEST(Tamper, EveryChangedFileIsNamed) {
  const BundleFiles whole = SampleBundle();
  ASSERT_FALSE(whole.empty());
  for (const auto& [path, bytes] : whole) {
    BundleFiles files = whole;
    files[path][files[path].size() / 2] ^= 1;
    const BundleReport report = VerifyBundle(files);
    EXPECT_TRUE(Names(report, path) || path == "SHA256SUMS") << path;
    EXPECT_FALSE(report.problems.empty()) << path;
  }
}

// What is left when the checksums are made anew and the signature is taken away.
TEST(Tamper, EveryFileFollowsFromTheEvidence) {
  const BundleFiles whole = SampleBundle();
  for (const auto& [path, bytes] : whole) {
    if (path == "SHA256SUMS" || path == "SHA256SUMS.sig" || path == "signer.pub") continue;
    BundleFiles files = whole;
    files[path] += "\n";
    FixChecksums(files);
    EXPECT_FALSE(VerifyBundle(files).problems.empty()) << path;
  }
}

TEST(Tamper, ASignatureOfAnotherKeyIsNotTrusted) {
  const BundleFiles whole = SampleBundle();
  BundleVerifyOptions options;
  options.trusted_signer = whole.at("signer.pub");
  EXPECT_TRUE(VerifyBundle(whole, options).problems.empty());
  BundleFiles other = whole;
  const auto key = NewSigningKey();
  ASSERT_TRUE(key.ok());
  ASSERT_TRUE(SignBundle(*key, other).ok());
  EXPECT_TRUE(VerifyBundle(other).problems.empty());
  EXPECT_TRUE(Names(VerifyBundle(other, options), "SHA256SUMS.sig"));
  BundleFiles unsigned_files = whole;
  FixChecksums(unsigned_files);
  EXPECT_TRUE(Names(VerifyBundle(unsigned_files, options), "SHA256SUMS.sig"));
}

TEST(Tamper, TheSameKeyGivesTheSameSignature) { EXPECT_EQ(SampleBundle(), SampleBundle()); }

TEST(Tamper, EveryMissingFileIsNamed) {
  const BundleFiles whole = SampleBundle();
  for (const auto& [path, bytes] : whole) {
    BundleFiles files = whole;
    files.erase(path);
    EXPECT_TRUE(Names(VerifyBundle(files), path)) << path;
  }
}

TEST(Tamper, AnExtraFileIsNamed) {
  BundleFiles files = SampleBundle();
  files["objects/cpu/extra.so"] = "x";
  EXPECT_TRUE(Names(VerifyBundle(files), "objects/cpu/extra.so"));
}

// One sentence, not one for each file.
TEST(Tamper, EmptiedChecksumsAreOneProblem) {
  BundleFiles files = SampleBundle();
  files["SHA256SUMS"] = "";
  const BundleReport report = VerifyBundle(files);
  ASSERT_EQ(report.problems.size(), 2U);
  EXPECT_EQ(report.problems[0].message, "lists no file");
  EXPECT_EQ(report.problems[1].path, "SHA256SUMS.sig");
}

TEST(Tamper, ANewerFormatSaysWhatReadsIt) {
  BundleFiles files = SampleBundle();
  json manifest = json::parse(files["manifest.json"]);
  manifest["format"] = 3;
  files["manifest.json"] = manifest.dump(2) + "\n";
  FixChecksums(files);
  const BundleReport report = VerifyBundle(files);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_NE(report.problems[0].message.find("format 3, and this fettle reads 2"),
            std::string::npos);
}

TEST(Tamper, WhatPythonCompiledIsNamedWithItsRemedy) {
  BundleFiles files = SampleBundle();
  files["torch/__pycache__/op.cpython-312.pyc"] = "\xcb\r\r\n";
  const BundleReport report = VerifyBundle(files);
  ASSERT_FALSE(report.problems.empty());
  EXPECT_EQ(report.problems[0].path, "torch/__pycache__/op.cpython-312.pyc");
  EXPECT_NE(report.problems[0].message.find("PYTHONDONTWRITEBYTECODE=1"), std::string::npos);
}

TEST(Tamper, AChangeWithFixedChecksumsIsStillFound) {
  const BundleFiles whole = SampleBundle();
  for (const char* path : {"src/v1/kernel.cu", "objects/cpu/v2-0.so", "task/kernel.cu",
                           "task/reference.cc", "manifest.schema.json"}) {
    BundleFiles files = whole;
    files[path] += " ";
    FixManifest(files);
    if (std::string(path) == "manifest.schema.json") continue;  // White space is no change there.
    EXPECT_FALSE(VerifyBundle(files).problems.empty()) << path;
  }
}

TEST(Tamper, FiguresMustFollowFromTheSamples) {
  const std::vector<std::pair<std::string, json>> changes = {
      {"/variant/ratio", 2.0},
      {"/variant/ratio_low", 0.9},
      {"/measurement/cases/0/ratio", 2.0},
      {"/measurement/cases/0/block_log_ratios/3", 0.9},
      {"/measurement/cases/0/blocks/3/b_ns/4", 1.0},
      {"/verification/passed", false},
      {"/verification/cases/1/passed", false},
      {"/variant/values/BLOCK", 256},
  };
  const BundleFiles whole = SampleBundle();
  int found = 0;
  for (const auto& [pointer, value] : changes) {
    BundleFiles files = whole;
    json evidence = json::parse(files["evidence/v1.json"]);
    evidence[json::json_pointer(pointer)] = value;
    files["evidence/v1.json"] = CanonicalJson(evidence) + "\n";
    FixManifest(files);
    const bool caught = !VerifyBundle(files).problems.empty();
    found += caught ? 1 : 0;
    // One sample within a block does not move its median.
    EXPECT_TRUE(caught || pointer.find("b_ns") != std::string::npos) << pointer;
  }
  EXPECT_GE(found, static_cast<int>(changes.size()) - 1);
}

TEST(Tamper, TheManifestMustSayWhatTheEvidenceSays) {
  const std::vector<std::pair<std::string, json>> changes = {
      {"/variants/0/performance/ratio", 3.0},
      {"/variants/0/guards/envelopes/0/dims/n/max", 1 << 20},
      {"/variants/0/guards/envelopes/0/elements/x", 1 << 20},
      {"/variants/0/guards/envelopes/0/elements", json::object()},
      {"/variants/0/guards/envelopes/0/member_elements", json{{"x", 1 << 20}}},
      {"/selection/targets/0/rows/0/dims/n/max", 1 << 20},
      {"/bundle/version", "9.0.0"},
      {"/variants/0/kernel/values/BLOCK", 64},
      {"/variants/0/builds/0/status", "emulated"},
      {"/variants/0/device", "Another CPU"},
      {"/op/license", "MIT"},
      {"/op/task_digest", std::string(64, 'a')},
      {"/fallback/kernel/values/BLOCK", 256},
  };
  for (const auto& [pointer, value] : changes) {
    BundleFiles files = SampleBundle();
    json manifest = json::parse(files["manifest.json"]);
    manifest[json::json_pointer(pointer)] = value;
    files["manifest.json"] = manifest.dump(2) + "\n";
    FixChecksums(files);
    EXPECT_TRUE(Names(VerifyBundle(files), "manifest.json")) << pointer;
  }
}

TEST(Tamper, ARaisedVolumeInTheHeaderIsFound) {
  BundleFiles files = SampleBundle();
  const std::string limit = "volume(c.s_x[0]), INT64_C(4096)";
  std::string header;
  for (auto& [path, text] : files) {
    const std::size_t at = text.find(limit);
    if (!path.starts_with("include/fettle_ops/") || at == std::string::npos) continue;
    text.replace(at, limit.size(), "volume(c.s_x[0]), INT64_C(9999)");
    header = path;
  }
  ASSERT_FALSE(header.empty());
  EXPECT_TRUE(Names(VerifyBundle(files), header));
  FixChecksums(files);
  EXPECT_TRUE(Names(VerifyBundle(files), header));
}

// Exported by an earlier version, whose headers have no such limit: read, with a word of warning.
TEST(Tamper, AnEarlierVersionsManifestWithoutVolumesIsReadAndNoted) {
  BundleFiles files = SampleBundle();
  json manifest = json::parse(files["manifest.json"]);
  manifest["tool"]["version"] = "0.0.1";
  for (json& variant : manifest["variants"]) {
    for (json& envelope : variant["guards"]["envelopes"]) envelope.erase("elements");
  }
  files["manifest.json"] = manifest.dump(2) + "\n";
  FixChecksums(files);
  const BundleReport report = VerifyBundle(files);
  for (const BundleProblem& problem : report.problems)
    ADD_FAILURE() << problem.path << ": " << problem.message;
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_NE(report.notes[0].find("largest number of elements"), std::string::npos);
}

TEST(Tamper, AFuzzedManifestIsNeverTakenForWhole) {
  const BundleFiles whole = SampleBundle();
  const json original = json::parse(whole.at("manifest.json"));
  std::mt19937 random(20240607);
  for (int round = 0; round < 200; ++round) {
    BundleFiles files = whole;
    std::string& text = files["manifest.json"];
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
      if (text.empty()) text = " ";
    }
    FixChecksums(files);
    const json parsed = json::parse(text, nullptr, false);
    EXPECT_TRUE(!VerifyBundle(files).problems.empty() || parsed == original) << text;
  }
}

// Damaged code objects with fixed checksums: never a crash, and found.
TEST(Tamper, AFuzzedObjectIsFound) {
  const BundleFiles whole = SampleBundle();
  std::mt19937 random(20240608);
  for (int round = 0; round < 60; ++round) {
    BundleFiles files = whole;
    std::string& bytes = files["objects/cpu/v1-0.so"];
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    for (int i = 0; i < 8 && !bytes.empty(); ++i)
      bytes[random() % std::min<std::size_t>(bytes.size(), 512)] = static_cast<char>(random());
    FixManifest(files);
    EXPECT_FALSE(VerifyBundle(files).problems.empty()) << round;
  }
}

}  // namespace
}  // namespace fettle
