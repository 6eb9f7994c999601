// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/work_unit.h"
#include "exporter/bundle_scan.h"
#include "exporter/evidence_check.h"
#include "exporter/generated.h"
#include "exporter/manifest.h"
#include "exporter/operator_header.h"
#include "exporter/operator_view.h"
#include "exporter/runtime_headers.h"
#include "exporter/signature.h"
#include "store/compress.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::string_view kVectorFolder = "tests/vectors/";

// The bundle's own files as blobs by digest, so that the checks of an export can be repeated.
class FilesAsBlobs final : public BlobStore {
 public:
  explicit FilesAsBlobs(const BundleFiles& files) {
    TaskFiles task;
    for (const auto& [path, bytes] : files) {
      if (path.starts_with("objects/")) blobs_.emplace(Sha256Hex(bytes), &bytes);
      if (path.starts_with("task/")) task.emplace(path.substr(5), bytes);
    }
    task_blob_ = PackTaskFiles(task);
    blobs_.emplace(Sha256Hex(task_blob_), &task_blob_);
  }
  absl::StatusOr<std::string> Get(std::string_view digest) override {
    const auto found = blobs_.find(std::string(digest));
    if (found != blobs_.end()) return *found->second;
    return absl::NotFoundError("no file of the bundle has these bytes");
  }
  absl::StatusOr<std::string> Put(std::string_view) override {
    return absl::FailedPreconditionError("a bundle's files take no blobs");
  }

 private:
  std::map<std::string, const std::string*> blobs_;
  std::string task_blob_;
};

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

absl::StatusOr<BundleModel> ModelOf(const std::vector<ProvenVariant>& proven, BlobStore& blobs,
                                    const BundleExtras& extras) {
  return MakeBundleModel(proven, extras,
                         [&](const std::string& digest) { return blobs.Get(digest); });
}

// Everything that does not follow from other files: task, sources, objects, evidence, vectors.
absl::StatusOr<BundleFiles> OwnFiles(const BundleModel& model, BlobStore& blobs,
                                     const BundleExtras& extras) {
  BundleFiles files;
  for (const auto& [path, text] : model.task->files()) {
    if (!IsPlainPath(path)) {
      return absl::InvalidArgumentError(
          fmt::format("export a bundle: the task's file '{}' leaves its folder", path));
    }
    files["task/" + path] = text;
  }
  for (const BundleKernel& kernel : model.kernels) {
    FETTLE_ASSIGN_OR_RETURN(auto sources, SourceFiles(kernel));
    files.merge(std::move(sources));
    if (kernel.variant == nullptr) continue;
    files[fmt::format("evidence/{}.json", kernel.id)] =
        CanonicalJson(kernel.variant->provenance->document) + "\n";
  }
  std::map<std::string, const std::string*> extra;
  for (const ExtraBuild& build : extras.builds) {
    extra.emplace(Sha256Hex(build.code_object), &build.code_object);
  }
  for (const BundleBuild& build : model.builds) {
    const auto found = extra.find(build.sha256);
    if (found != extra.end()) {
      files[build.path] = *found->second;
    } else {
      FETTLE_ASSIGN_OR_RETURN(files[build.path], blobs.Get(build.sha256));
    }
  }
  for (const auto& [path, bytes] : extras.vectors) {
    if (!IsPlainPath(path)) {
      return absl::InvalidArgumentError(
          fmt::format("export a bundle: the test vector '{}' leaves its folder", path));
    }
    files[std::string(kVectorFolder) + path] = bytes;
  }
  for (const auto& [path, bytes] : extras.runs) files[std::string(kRunFolder) + path] = bytes;
  return files;
}

std::map<std::string, std::string> Sums(const BundleFiles& files) {
  std::map<std::string, std::string> sums;
  for (const auto& [path, bytes] : files) sums[path] = Sha256Hex(bytes);
  return sums;
}

absl::StatusOr<BundleFiles> LayOut(const std::vector<ProvenVariant>& proven, BlobStore& blobs,
                                   const BundleExtras& extras) {
  FETTLE_ASSIGN_OR_RETURN(const BundleModel model, ModelOf(proven, blobs, extras));
  FETTLE_ASSIGN_OR_RETURN(BundleFiles files, OwnFiles(model, blobs, extras));
  FETTLE_RETURN_IF_ERROR(ScanForSecrets(files));
  files["src/build.json"] = MakeBuildList(model).dump(2, ' ', false, kReplaceInvalid) + "\n";
  std::map<std::string, FileFacts> facts;
  for (const auto& [path, bytes] : files) facts[path] = {Sha256Hex(bytes), bytes.size()};
  const json manifest = MakeManifest(model, facts);
  files["manifest.json"] = manifest.dump(2, ' ', false, kReplaceInvalid) + "\n";
  files["manifest.schema.json"] = std::string(ManifestSchema());
  files["README.md"] = MakeReadme(manifest);
  files["LICENSE"] = LicenseText(model.task->license());
  const std::string name = CppIdentifier(model.task->name());
  FETTLE_ASSIGN_OR_RETURN(
      files[fmt::format("include/fettle_ops/{}/{}.hpp", name, model.short_digest())],
      OperatorHeader(model));
  files[fmt::format("include/fettle_ops/{}.hpp", name)] = AliasHeader(model);
  files.merge(RuntimeHeaderFiles());
  files.merge(CmakePackage(model));
  files.merge(CmakeFromSource(model));
  files.merge(TorchBinding(model));
  files.merge(ReferenceFiles(model));
  files.merge(TunedCsv(model));
  const auto index = extras.vectors.find("index.json");
  files.merge(
      VectorCheck(model, index == extras.vectors.end() ? json() : ParseJson(index->second)));
  files.merge(Attestation(model, Sums(files)));
  files["sbom.spdx.json"] = Sbom(model, files);
  files[kChecksumsFile] = Checksums(files);
  return files;
}

// "1.4.0", each number below a million.
bool IsBundleVersion(std::string_view version) {
  int parts = 0;
  while (true) {
    const std::size_t end = std::min(version.find('.'), version.size());
    const std::string_view part = version.substr(0, end);
    if (part.empty() || part.size() > 6 ||
        part.find_first_not_of("0123456789") != std::string_view::npos) {
      return false;
    }
    ++parts;
    if (end == version.size()) return parts == 3;
    version.remove_prefix(end + 1);
  }
}

std::vector<std::string> Texts(const json& object, const char* key) {
  std::vector<std::string> out;
  const json value = object.is_object() ? object.value(key, json()) : json();
  for (const json& text : value.is_array() ? value : json::array()) {
    if (text.is_string()) out.push_back(text.get<std::string>());
  }
  return out;
}

absl::StatusOr<BundleExtras> ReadExtras(const BundleFiles& files,
                                        const std::vector<VariantProvenance>& variants) {
  BundleExtras extras;
  const auto manifest = files.find("manifest.json");
  const json document = manifest == files.end() ? json() : ParseJson(manifest->second);
  if (!document.is_object() || !document.value("bundle", json()).is_object()) {
    return absl::InvalidArgumentError("read a bundle: manifest.json is missing or no JSON object");
  }
  extras.version = TextAt(document["bundle"], "version");
  for (const auto& [path, bytes] : files) {
    if (path.starts_with(kVectorFolder)) extras.vectors[path.substr(kVectorFolder.size())] = bytes;
    if (path.starts_with(kRunFolder)) extras.runs[path.substr(kRunFolder.size())] = bytes;
  }
  const auto list = files.find("src/build.json");
  const json builds = list == files.end() ? json() : ParseJson(list->second);
  if (!builds.is_object() || !builds.value("builds", json()).is_array()) {
    return absl::InvalidArgumentError(
        "read a bundle: src/build.json is missing or no list of builds");
  }
  for (const json& entry : builds["builds"]) {
    const std::string kernel = TextAt(entry, "kernel"), key = TextAt(entry, "key"),
                      target = TextAt(entry, "target");
    // What the evidence names is no extra.
    const bool proven =
        std::any_of(variants.begin(), variants.end(), [&](const VariantProvenance& variant) {
          return variant.id == kernel && std::any_of(variant.builds.begin(), variant.builds.end(),
                                                     [&](const ProvenanceBuild& build) {
                                                       return build.key == key &&
                                                              build.target == target;
                                                     });
        });
    if (proven) continue;
    const auto object = files.find(TextAt(entry, "object"));
    if (object == files.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "read a bundle: {} is missing: src/build.json names it", TextAt(entry, "object")));
    }
    extras.builds.push_back({.kernel = kernel,
                             .target = target,
                             .key = key,
                             .compiler = TextAt(entry, "compiler"),
                             .machine = TextAt(entry, "machine"),
                             .entries = Texts(entry, "entries"),
                             .symbols = Texts(entry, "symbols"),
                             .facts = entry.value("facts", json::object()),
                             .code_object = object->second});
    // Only evidence says that something ran, and the model reads it.
    if (TextAt(entry, "status") != "compiled_only" && extras.runs.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "read a bundle: src/build.json calls the build of {} for {} '{}' without evidence",
          kernel, target, TextAt(entry, "status")));
    }
    if (extras.builds.back().entries.size() != extras.builds.back().symbols.size()) {
      return absl::InvalidArgumentError(
          "read a bundle: src/build.json must name one symbol for each entry");
    }
  }
  return extras;
}

}  // namespace

std::string Checksums(const BundleFiles& files) {
  std::string lines;
  for (const auto& [path, bytes] : files) {
    if (path == kChecksumsFile || path == kSignatureFile) continue;
    lines += fmt::format("{}  {}\n", Sha256Hex(bytes), path);
  }
  return lines;
}

absl::StatusOr<BundleFiles> BuildBundle(std::span<const VariantProvenance> variants,
                                        BlobStore& blobs, const BundleExtras& extras) {
  if (variants.empty()) {
    return absl::InvalidArgumentError(
        "export a bundle: no variants; name one, or a task that has accepted ones");
  }
  if (!IsBundleVersion(extras.version)) {
    return absl::InvalidArgumentError(
        fmt::format("export a bundle: version {}: three numbers are needed, as in 1.4.0",
                    json(extras.version.substr(0, 40)).dump(-1, ' ', true, kReplaceInvalid)));
  }
  FETTLE_ASSIGN_OR_RETURN(const std::vector<ProvenVariant> proven, CheckAll(variants, blobs));
  return LayOut(proven, blobs, extras);
}

absl::StatusOr<std::vector<VariantProvenance>> ChooseVariants(
    std::span<const VariantProvenance> variants, BlobStore& blobs) {
  std::vector<ProvenVariant> proven;
  absl::Status refused;
  for (const VariantProvenance& variant : variants) {
    absl::StatusOr<ProvenVariant> checked = CheckEvidence(variant, blobs);
    if (checked.ok()) {
      proven.push_back(*std::move(checked));
    } else {
      refused.Update(checked.status());
    }
  }
  if (proven.empty()) return refused;
  FETTLE_ASSIGN_OR_RETURN(const BundleModel model, ModelOf(proven, blobs, BundleExtras()));
  const std::set<std::string> ids = VariantsInForce(model);
  std::vector<VariantProvenance> chosen;
  for (const ProvenVariant& variant : proven) {
    if (ids.contains(variant.provenance->id)) chosen.push_back(*variant.provenance);
  }
  return chosen;
}

absl::StatusOr<BundleParts> ReadParts(const BundleFiles& files) {
  BundleParts parts;
  for (const auto& [path, bytes] : files) {
    if (!path.starts_with("evidence/") || path.starts_with(kRerunFolder) ||
        path.starts_with(kRunFolder) || !path.ends_with(".json"))
      continue;
    absl::StatusOr<VariantProvenance> variant = ParseProvenance(bytes);
    if (!variant.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("read a bundle: {}: {}", path, std::string(variant.status().message())));
    }
    parts.variants.push_back(*std::move(variant));
  }
  if (parts.variants.empty())
    return absl::InvalidArgumentError("read a bundle: no evidence of any variant");
  FETTLE_ASSIGN_OR_RETURN(parts.extras, ReadExtras(files, parts.variants));
  return parts;
}

absl::StatusOr<BundleFiles> LayOutAgain(const BundleParts& parts, const BundleFiles& files) {
  FilesAsBlobs blobs(files);
  return BuildBundle(parts.variants, blobs, parts.extras);
}

absl::StatusOr<BundleFiles> TakeReruns(const BundleFiles& files, std::vector<std::string>* notes) {
  FETTLE_ASSIGN_OR_RETURN(const LoadedBundle loaded, LoadBundle(files));
  BundleParts parts = *loaded.parts;
  std::size_t taken = 0;
  for (const auto& [path, bytes] : files) {
    if (!path.starts_with(kRerunFolder) || !path.ends_with(".json")) continue;
    const std::string name = path.substr(kRerunFolder.size());
    const absl::StatusOr<std::vector<BundleRun>> run = ReadRuns({{name, bytes}}, loaded.proven);
    if (!run.ok()) {
      notes->push_back(std::string(run.status().message()));
      continue;
    }
    const BundleRun& one = run->front();
    const bool fits = std::any_of(
        loaded.model.builds.begin(), loaded.model.builds.end(), [&](const BundleBuild& build) {
          return build.status == "compiled_only" &&
                 FindRun(*run, build.kernel, build.target, build.key, build.sha256) != nullptr;
        });
    if (!fits) {
      notes->push_back(fmt::format(
          "take the rerun {}: none of the bundle's objects for {} is the one that ran; compile "
          "them with the same compiler (fettle export --also {})",
          path, one.target, one.target));
      continue;
    }
    parts.extras.runs.emplace(name, bytes);
    ++taken;
  }
  if (taken == 0) return absl::NotFoundError("no rerun that shows more than the bundle says");
  return LayOutAgain(parts, files);
}

absl::StatusOr<LoadedBundle> LoadBundle(const BundleFiles& files) {
  LoadedBundle loaded;
  FETTLE_ASSIGN_OR_RETURN(BundleParts parts, ReadParts(files));
  loaded.parts = std::make_unique<BundleParts>(std::move(parts));
  FilesAsBlobs blobs(files);
  FETTLE_ASSIGN_OR_RETURN(loaded.proven, CheckAll(loaded.parts->variants, blobs));
  FETTLE_ASSIGN_OR_RETURN(loaded.model, ModelOf(loaded.proven, blobs, loaded.parts->extras));
  return loaded;
}

absl::Status SignBundle(std::string_view private_pem, BundleFiles& files) {
  FETTLE_ASSIGN_OR_RETURN(files[kSignerFile], PublicKeyOf(private_pem));
  BundleFiles exported;
  for (const auto& [path, bytes] : files) {
    if (!path.starts_with(kRerunFolder)) exported.emplace(path, bytes);
  }
  files[kChecksumsFile] = Checksums(exported);
  FETTLE_ASSIGN_OR_RETURN(files[kSignatureFile], Sign(private_pem, files[kChecksumsFile]));
  return absl::OkStatus();
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
