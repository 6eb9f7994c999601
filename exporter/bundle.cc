// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/work_unit.h"
#include "core/text.h"
#include "exporter/evidence_check.h"
#include "exporter/manifest.h"
#include "store/compress.h"

namespace fettle {
namespace {

absl::StatusOr<std::vector<ProvenVariant>> CheckAll(std::span<const VariantProvenance> variants,
                                                    BlobStore& blobs) {
  std::vector<ProvenVariant> proven;
  for (const VariantProvenance& variant : variants) {
    FETTLE_ASSIGN_OR_RETURN(ProvenVariant checked, CheckEvidence(variant, blobs));
    proven.push_back(std::move(checked));
  }
  std::sort(proven.begin(), proven.end(), [](const ProvenVariant& a, const ProvenVariant& b) {
    return a.provenance->id < b.provenance->id;
  });
  for (std::size_t i = 1; i < proven.size(); ++i) {
    if (proven[i].provenance->id == proven[i - 1].provenance->id) {
      return absl::InvalidArgumentError(
          fmt::format("export variant {}: named twice", proven[i].provenance->id));
    }
    if (proven[i].task->digest() != proven[0].task->digest()) {
      return absl::InvalidArgumentError(fmt::format(
          "export variants {} and {}: of different tasks ({} and {}); export one bundle per task",
          proven[0].provenance->id, proven[i].provenance->id, proven[0].task->name(),
          proven[i].task->name()));
    }
  }
  return proven;
}

absl::Status AddVariant(const ProvenVariant& variant, BlobStore& blobs, BundleFiles& files) {
  FETTLE_ASSIGN_OR_RETURN(const VariantPaths paths, PathsOf(variant));
  files[paths.source] = variant.kernel.source;
  for (const auto& [path, text] : paths.headers) files[path] = text;
  for (std::size_t i = 0; i < paths.objects.size(); ++i) {
    FETTLE_ASSIGN_OR_RETURN(files[paths.objects[i]],
                            blobs.Get(variant.provenance->builds[i].code_object));
  }
  files[paths.evidence] = CanonicalJson(variant.provenance->document) + "\n";
  return absl::OkStatus();
}

}  // namespace

std::string Checksums(const BundleFiles& files) {
  std::string lines;
  for (const auto& [path, bytes] : files) lines += fmt::format("{}  {}\n", Sha256Hex(bytes), path);
  return lines;
}

absl::StatusOr<BundleFiles> BuildBundle(std::span<const VariantProvenance> variants,
                                        BlobStore& blobs) {
  if (variants.empty()) {
    return absl::InvalidArgumentError(
        "export a bundle: no variants; name one, or a task that has "
        "accepted ones");
  }
  FETTLE_ASSIGN_OR_RETURN(const std::vector<ProvenVariant> proven, CheckAll(variants, blobs));
  BundleFiles files;
  for (const auto& [path, text] : proven.front().task->files()) {
    if (!IsPlainPath(path)) {
      return absl::InvalidArgumentError(
          fmt::format("export a bundle: the task's file '{}' leaves its folder", path));
    }
    files["task/" + path] = text;
  }
  for (const ProvenVariant& variant : proven) {
    FETTLE_RETURN_IF_ERROR(AddVariant(variant, blobs, files));
  }
  std::map<std::string, FileFacts> facts;
  for (const auto& [path, bytes] : files) facts[path] = {Sha256Hex(bytes), bytes.size()};
  FETTLE_ASSIGN_OR_RETURN(const nlohmann::json manifest, MakeManifest(proven, facts));
  files["manifest.json"] = manifest.dump(2, ' ', false, kReplaceInvalid) + "\n";
  files["manifest.schema.json"] = std::string(ManifestSchema());
  files["README.md"] = MakeReadme(manifest);
  files["SHA256SUMS"] = Checksums(files);
  return files;
}

std::string PackBundle(const BundleFiles& files) { return ZstdCompress(PackTaskFiles(files)); }

absl::StatusOr<BundleFiles> UnpackBundle(std::string_view bytes) {
  FETTLE_ASSIGN_OR_RETURN(const std::string document, ZstdDecompress(bytes, kMaxDocumentBytes));
  absl::StatusOr<BundleFiles> files = UnpackTaskFiles(document);
  if (!files.ok()) return absl::DataLossError(std::string(files.status().message()));
  for (const auto& [path, text] : *files) {
    if (!IsPlainPath(path)) {
      return absl::InvalidArgumentError(
          fmt::format("unpack a bundle: the path '{}' leaves its folder", path));
    }
  }
  return files;
}

}  // namespace fettle
