// SPDX-License-Identifier: Apache-2.0
#include "exporter/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "exporter/evidence_check.h"
#include "exporter/manifest.h"

namespace fettle {
namespace {

using nlohmann::json;

// The bundle's own files as blobs by digest, so that the checks of an export can be repeated.
class FilesAsBlobs final : public BlobStore {
 public:
  explicit FilesAsBlobs(const BundleFiles& files) {
    TaskFiles task;
    for (const auto& [path, bytes] : files) {
      blobs_.emplace(Sha256Hex(bytes), bytes);
      if (path.starts_with("task/")) task.emplace(path.substr(5), bytes);
    }
    task_blob_ = PackTaskFiles(task);
    blobs_.emplace(Sha256Hex(task_blob_), task_blob_);
  }
  absl::StatusOr<std::string> Get(std::string_view digest) override {
    const auto found = blobs_.find(std::string(digest));
    if (found != blobs_.end()) return found->second;
    return absl::NotFoundError("no file of the bundle has these bytes");
  }
  absl::StatusOr<std::string> Put(std::string_view) override {
    return absl::FailedPreconditionError("a bundle that is being verified takes no blobs");
  }
  const std::string& task_blob() const { return task_blob_; }

 private:
  std::map<std::string, std::string> blobs_;
  std::string task_blob_;
};

// "digest  path" lines.
std::optional<std::map<std::string, std::string>> ParseChecksums(const std::string& text) {
  std::map<std::string, std::string> sums;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos || end - begin < 67 || text.substr(begin + 64, 2) != "  ") {
      return std::nullopt;
    }
    const std::string path = text.substr(begin + 66, end - begin - 66);
    if (!IsPlainPath(path) || !sums.emplace(path, text.substr(begin, 64)).second) {
      return std::nullopt;
    }
    begin = end + 1;
  }
  return sums;
}

class Verifier {
 public:
  explicit Verifier(const BundleFiles& files) : files_(files) {
    report_.files = static_cast<int>(files.size());
  }

  BundleReport Run() {
    CheckChecksums("SHA256SUMS", "", /*reruns=*/false);
    const std::string rerun_sums = std::string(kRerunFolder) + "SHA256SUMS";
    const bool any_rerun = std::any_of(files_.begin(), files_.end(), [](const auto& file) {
      return file.first.starts_with(kRerunFolder);
    });
    if (any_rerun) CheckChecksums(rerun_sums, std::string(kRerunFolder), /*reruns=*/true);
    if (CheckManifest()) CheckEvidenceFiles();
    return std::move(report_);
  }

 private:
  void Problem(std::string path, std::string message) {
    report_.problems.push_back({std::move(path), std::move(message)});
  }
  const std::string* Find(const std::string& path) const {
    const auto found = files_.find(path);
    return found == files_.end() ? nullptr : &found->second;
  }

  void CheckChecksums(const std::string& sums_path, const std::string& folder, bool reruns);
  bool CheckManifest();
  void CheckFileEntries(const json& value);
  void CheckEvidenceFiles();
  void CheckAgainstEvidence(const std::vector<ProvenVariant>& proven);

  const BundleFiles& files_;
  BundleReport report_;
};

void Verifier::CheckChecksums(const std::string& sums_path, const std::string& folder,
                              bool reruns) {
  const std::string* text = Find(sums_path);
  if (text == nullptr) return Problem(sums_path, "missing");
  const auto sums = ParseChecksums(*text);
  if (!sums.has_value())
    return Problem(sums_path, "not lines of a digest and a path, each path once");
  for (const auto& [path, digest] : *sums) {
    const std::string* bytes = Find(folder + path);
    if (bytes == nullptr) {
      Problem(folder + path, fmt::format("missing: {} lists it", sums_path));
    } else if (Sha256Hex(*bytes) != digest) {
      Problem(folder + path, fmt::format("changed: its digest is not that of {}", sums_path));
    }
  }
  for (const auto& [path, bytes] : files_) {
    const bool is_rerun = path.starts_with(kRerunFolder);
    if (path == sums_path || is_rerun != reruns) continue;
    if (reruns) ++report_.reruns;
    if (!sums->contains(path.substr(folder.size()))) {
      Problem(path, fmt::format("extra: {} does not list it", sums_path));
    }
  }
}

bool Verifier::CheckManifest() {
  const std::string* text = Find("manifest.json");
  if (text == nullptr) {
    Problem("manifest.json", "missing");
    return false;
  }
  json manifest = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (manifest.is_discarded()) {
    Problem("manifest.json", "not JSON");
    return false;
  }
  const json schema = json::parse(ManifestSchema(), nullptr, /*allow_exceptions=*/false);
  const absl::Status valid = CheckSchema(manifest, schema);
  if (!valid.ok()) {
    Problem("manifest.json", std::string(valid.message()));
    return false;
  }
  const std::string* shipped = Find("manifest.schema.json");
  if (shipped == nullptr || json::parse(*shipped, nullptr, false) != schema) {
    Problem("manifest.schema.json", "not the schema of format 1");
  }
  report_.manifest = std::move(manifest);
  CheckFileEntries(report_.manifest);
  return true;
}

// Every {path, sha256, bytes} in the manifest names a file that is so.
void Verifier::CheckFileEntries(const json& value) {
  if (value.is_object() && value.contains("sha256") && value.contains("path")) {
    const std::string path = value["path"].get<std::string>();
    const std::string* bytes = Find(path);
    if (bytes == nullptr) return Problem(path, "missing: the manifest names it");
    if (Sha256Hex(*bytes) != value["sha256"] || bytes->size() != value["bytes"]) {
      Problem(path, "not the file that the manifest describes");
    }
    return;
  }
  if (value.is_structured()) {
    for (const json& member : value) CheckFileEntries(member);
  }
}

void Verifier::CheckEvidenceFiles() {
  FilesAsBlobs blobs(files_);
  for (const json& entry : report_.manifest["variants"]) {
    const std::string path = entry["evidence"]["path"].get<std::string>();
    const std::string* text = Find(path);
    if (text == nullptr) continue;  // Reported already.
    absl::StatusOr<VariantProvenance> variant = ParseProvenance(*text);
    if (!variant.ok()) {
      Problem(path, std::string(variant.status().message()));
    } else {
      report_.variants.push_back(*std::move(variant));
    }
  }
  std::vector<ProvenVariant> proven;
  for (const VariantProvenance& variant : report_.variants) {
    absl::StatusOr<ProvenVariant> checked = CheckEvidence(variant, blobs);
    if (checked.ok()) {
      proven.push_back(*std::move(checked));
    } else {
      Problem(fmt::format("evidence/{}.json", variant.id), std::string(checked.status().message()));
    }
  }
  if (!proven.empty() && proven.size() == report_.manifest["variants"].size()) {
    CheckAgainstEvidence(proven);
  }
}

// The manifest, made again from the evidence, must come out equal. Facts of files that are missing
// were reported already.
void Verifier::CheckAgainstEvidence(const std::vector<ProvenVariant>& proven) {
  std::map<std::string, FileFacts> facts;
  for (const auto& [path, bytes] : files_) facts[path] = {Sha256Hex(bytes), bytes.size()};
  for (const ProvenVariant& variant : proven) {
    const absl::StatusOr<VariantPaths> paths = PathsOf(variant);
    if (!paths.ok()) return Problem("manifest.json", std::string(paths.status().message()));
    std::set<std::string> wanted(paths->objects.begin(), paths->objects.end());
    wanted.insert({paths->source, paths->evidence});
    for (const auto& [path, text] : paths->headers) wanted.insert(path);
    for (const std::string& path : wanted) {
      if (!facts.contains(path)) return Problem(path, "missing: the evidence needs it");
    }
    for (std::size_t i = 0; i < paths->objects.size(); ++i) {
      if (facts[paths->objects[i]].sha256 != variant.provenance->builds[i].code_object) {
        Problem(paths->objects[i], "not the code object that was tested");
      }
    }
    if (files_.at(paths->source) != variant.kernel.source) {
      Problem(paths->source, "not the source that was tested");
    }
    for (const auto& [path, text] : paths->headers) {
      if (files_.at(path) != text) Problem(path, "not the header that was tested");
    }
  }
  const absl::StatusOr<json> expected = MakeManifest(proven, facts);
  if (!expected.ok()) return Problem("manifest.json", std::string(expected.status().message()));
  for (const char* part : {"op", "variants", "fallback"}) {
    const json differences = json::diff(report_.manifest[part], expected->at(part));
    if (differences.empty()) continue;
    Problem("manifest.json", fmt::format("/{}{} does not follow from the evidence", part,
                                         differences[0].value("path", "")));
  }
}

}  // namespace

BundleReport VerifyBundle(const BundleFiles& files) { return Verifier(files).Run(); }

}  // namespace fettle
