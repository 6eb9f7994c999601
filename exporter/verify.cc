// SPDX-License-Identifier: Apache-2.0
#include "exporter/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "compiler/facts/code_facts.h"
#include "core/code_object/elf.h"
#include "core/digest.h"
#include "core/json_text.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/work_unit.h"
#include "exporter/evidence_check.h"
#include "exporter/manifest.h"
#include "exporter/ptx.h"
#include "exporter/signature.h"

namespace fettle {
namespace {

using nlohmann::json;

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
  Verifier(const BundleFiles& files, const BundleVerifyOptions& options)
      : files_(files), options_(options) {
    report_.files = static_cast<int>(files.size());
  }

  BundleReport Run() {
    CheckChecksums(kChecksumsFile, "", /*reruns=*/false);
    const std::string rerun_sums = std::string(kRerunFolder) + kChecksumsFile;
    const bool any_rerun = std::any_of(files_.begin(), files_.end(), [](const auto& file) {
      return file.first.starts_with(kRerunFolder);
    });
    if (any_rerun) CheckChecksums(rerun_sums, std::string(kRerunFolder), /*reruns=*/true);
    CheckSigner();
    if (CheckManifest()) {
      CheckObjects();
      CheckEvidence();
    }
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
  void CheckSigner();
  bool CheckManifest();
  void NoteMissingVolumes();
  void CheckFileEntries(const json& value);
  void CheckObjects();
  void CheckObject(const json& build);
  void CheckEvidence();

  const BundleFiles& files_;
  const BundleVerifyOptions& options_;
  BundleReport report_;
};

void Verifier::CheckChecksums(const std::string& sums_path, const std::string& folder,
                              bool reruns) {
  const std::string* text = Find(sums_path);
  if (text == nullptr) return Problem(sums_path, "missing");
  const auto sums = ParseChecksums(*text);
  if (!sums.has_value())
    return Problem(sums_path, "not lines of a digest and a path, each path once");
  if (sums->empty()) return Problem(sums_path, "lists no file");
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
    if (!reruns && path == kSignatureFile) continue;
    if (reruns) ++report_.reruns;
    if (!sums->contains(path.substr(folder.size()))) {
      Problem(path, path.find("/__pycache__/") == std::string::npos
                        ? fmt::format("extra: {} does not list it", sums_path)
                        : "extra: Python keeps what it compiled there, and would run it instead of "
                          "the source; remove the folder, and set PYTHONDONTWRITEBYTECODE=1 where "
                          "operators are imported from a bundle");
    }
  }
}

void Verifier::CheckSigner() {
  const std::string* signature = Find(kSignatureFile);
  const std::string* signer = Find(kSignerFile);
  const std::string* sums = Find(kChecksumsFile);
  if (signature == nullptr && signer == nullptr) {
    if (!options_.trusted_signer.empty())
      Problem(kSignatureFile, "missing: the bundle is not signed");
    return;
  }
  if (signature == nullptr || signer == nullptr) {
    return Problem(signature == nullptr ? kSignatureFile : kSignerFile,
                   "missing: a signed bundle has both the signature and the signer's key");
  }
  if (sums == nullptr) return;
  const absl::Status own = CheckSignature(*signer, *sums, *signature);
  if (!own.ok()) return Problem(kSignatureFile, std::string(own.message()));
  report_.signer = KeyId(*signer);
  if (options_.trusted_signer.empty()) return;
  const absl::Status trusted = CheckSignature(options_.trusted_signer, *sums, *signature);
  if (!trusted.ok()) {
    Problem(kSignatureFile, fmt::format("signed by {}, not by the trusted key {}", report_.signer,
                                        KeyId(options_.trusted_signer)));
  }
}

bool Verifier::CheckManifest() {
  const std::string* text = Find("manifest.json");
  if (text == nullptr) {
    Problem("manifest.json", "missing");
    return false;
  }
  json manifest = ParseJson(*text);
  if (manifest.is_discarded()) {
    Problem("manifest.json", "not JSON, or nested too deep");
    return false;
  }
  if (manifest.is_object() && manifest.value("format", json()) == json(1)) {
    Problem("manifest.json",
            "format 1, which this fettle no longer reads; export the variants again");
    return false;
  }
  const json format = manifest.is_object() ? manifest.value("format", json()) : json();
  if (format.is_number_integer() && format > kBundleFormat) {
    Problem("manifest.json",
            fmt::format("format {}, and this fettle reads {}; use the fettle that exported it, or "
                        "a newer one",
                        format.dump(), kBundleFormat));
    return false;
  }
  const json schema = json::parse(ManifestSchema(), nullptr, /*allow_exceptions=*/false);
  const absl::Status valid = CheckSchema(manifest, schema);
  if (!valid.ok()) {
    Problem("manifest.json", std::string(valid.message()));
    return false;
  }
  report_.manifest = std::move(manifest);
  NoteMissingVolumes();
  CheckFileEntries(report_.manifest);
  return true;
}

// Earlier versions of this format limited each size by itself.
void Verifier::NoteMissingVolumes() {
  for (const json& variant : report_.manifest["variants"]) {
    for (const json& envelope : variant["guards"]["envelopes"]) {
      if (envelope.contains("elements")) continue;
      report_.notes.push_back(
          "guards without the largest number of elements that was tested: calls whose sizes were "
          "tested one by one, but not together, reach a variant; export the variants again");
      return;
    }
  }
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

void Verifier::CheckObjects() {
  for (const json& variant : report_.manifest["variants"]) {
    for (const json& build : variant["builds"]) CheckObject(build);
  }
  for (const json& build : report_.manifest["fallback"]["builds"]) CheckObject(build);
}

// What the object's own bytes say against what the manifest says of it.
void Verifier::CheckObject(const json& build) {
  const std::string path = build["object"]["path"].get<std::string>();
  const std::string* bytes = Find(path);
  if (bytes == nullptr) return;  // Reported already.
  const std::string name = build["target"].get<std::string>();
  const absl::StatusOr<Target> target = FindTarget(name);
  if (!target.ok()) return Problem(path, std::string(target.status().message()));
  std::set<std::string> symbols;
  if (target->vendor == Vendor::kCpu) {
    const absl::StatusOr<ElfFile> elf = ReadElf(AsBytes(*bytes));
    if (!elf.ok()) return Problem(path, std::string(elf.status().message()));
    for (const ElfSymbol& symbol : elf->symbols) {
      if (symbol.section != 0) symbols.insert(std::string(symbol.name));
    }
    if (!symbols.contains("fettle_cpu_module_info"))
      return Problem(path, "no module of the cpu target");
  } else if (IsPortable(*target)) {
    const absl::StatusOr<PtxFacts> facts = ReadPtx(*bytes);
    if (!facts.ok()) return Problem(path, std::string(facts.status().message()));
    if (facts->target != "sm_" + name.substr(name.find('_') + 1)) {
      return Problem(path, fmt::format("is PTX for {}, not for {}", facts->target, name));
    }
    symbols = facts->kernels;
  } else {
    const absl::StatusOr<CodeFacts> facts = ReadFacts(*bytes, name);
    if (!facts.ok()) return Problem(path, std::string(facts.status().message()));
    for (const KernelFacts& kernel : facts->kernels) symbols.insert(kernel.name);
    // Facts were read when it was built; the same bytes give the same facts.
    if (!build["facts"].empty() && build["facts"] != ToJson(*facts)) {
      Problem(path,
              "its registers, memory or instructions are not those that the manifest declares");
    }
  }
  for (const json& symbol : build["symbols"]) {
    if (!symbols.contains(symbol.get<std::string>())) {
      Problem(path,
              fmt::format("has no kernel {}, which the manifest names", symbol.get<std::string>()));
    }
  }
}

void Verifier::CheckEvidence() {
  const absl::StatusOr<BundleParts> parts = ReadParts(files_);
  if (!parts.ok()) return Problem("evidence", std::string(parts.status().message()));
  report_.variants = parts->variants;
  absl::StatusOr<BundleFiles> again = LayOutAgain(*parts, files_);
  if (!again.ok()) return Problem("evidence", std::string(again.status().message()));
  if (report_.manifest["tool"]["version"] != FETTLE_VERSION) {
    // Another version writes other files around the same evidence.
    report_.notes.push_back(
        fmt::format("exported by fettle {}, this is {}: generated files were not compared with "
                    "what the evidence gives",
                    report_.manifest["tool"]["version"].get<std::string>(), FETTLE_VERSION));
    return;
  }
  for (const auto& [path, bytes] : *again) {
    if (path == kChecksumsFile) continue;
    const std::string* found = Find(path);
    if (found == nullptr) {
      Problem(path, "missing: the evidence gives it");
    } else if (*found != bytes) {
      std::string where;
      if (path == "manifest.json") {
        const json differences = json::diff(report_.manifest, ParseJson(bytes));
        if (!differences.empty()) where = differences[0].value("path", "") + " ";
      }
      Problem(path, fmt::format("{}does not follow from the evidence", where));
    }
  }
  for (const auto& [path, bytes] : files_) {
    if (again->contains(path) || path.starts_with(kRerunFolder)) continue;
    if (path == kSignatureFile || path == kSignerFile) continue;
    Problem(path, "does not belong to the bundle: the evidence does not give it");
  }
}

}  // namespace

BundleReport VerifyBundle(const BundleFiles& files, const BundleVerifyOptions& options) {
  return Verifier(files, options).Run();
}

absl::StatusOr<BundleReport> RequireWholeBundle(const BundleFiles& files,
                                                std::string_view attempt) {
  BundleReport report = VerifyBundle(files);
  if (report.problems.empty()) return report;
  return absl::DataLossError(fmt::format(
      "{}: the bundle is not whole: {}: {}{}", attempt, report.problems[0].path,
      report.problems[0].message,
      report.problems.size() == 1
          ? ""
          : fmt::format(", and {} more; see fettle verify", report.problems.size() - 1)));
}

}  // namespace fettle
