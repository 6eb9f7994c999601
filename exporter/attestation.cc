// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include "core/digest.h"
#include "core/target.h"
#include "exporter/generated.h"
#include "exporter/manifest.h"
#include "exporter/operator_view.h"
#include "exporter/runtime_files.h"  // Generated from exporter/runtime.

namespace fettle {
namespace {

using nlohmann::json;

// SPDX 2.3 wants SHA-1 of every file besides stronger ones.
std::string Sha1Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha1(), nullptr);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

// The acceptance of the youngest variant: the only time in a bundle that its contents decide.
std::string TimeOf(const BundleModel& model) {
  std::int64_t latest = 0;
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const json at = kernel.variant->provenance->document["variant"].value("accepted_ns", json(0));
    if (at.is_number_integer()) latest = std::max(latest, at.get<std::int64_t>());
  }
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(static_cast<std::time_t>(latest / 1'000'000'000)));
}

json Resource(const std::string& name, const std::string& digest) {
  return {{"name", name}, {"digest", {{"sha256", digest}}}};
}

json Dependencies(const BundleModel& model) {
  const Task& task = *model.task;
  json list = json::array();
  json description = Resource("task/" + task.name(), task.digest());
  description["annotations"] = {{"digest_of", "canonical JSON of the parsed task"}};
  list.push_back(std::move(description));
  if (!task.reference().source.empty()) {
    const auto found = task.files().find(task.reference().source);
    if (found != task.files().end())
      list.push_back(Resource("task/" + found->first, Sha256Hex(found->second)));
  }
  std::set<std::string> compilers, models;
  for (const BundleBuild& build : model.builds) compilers.insert(build.compiler);
  for (const std::string& compiler : compilers) {
    list.push_back({{"name", compiler}, {"annotations", {{"kind", "compiler"}}}});
  }
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const json proposer = kernel.variant->provenance->document.value("proposer", json::object());
    const json id = proposer.is_object() ? proposer.value("model", json()) : json();
    if (id.is_string()) models.insert(id.get<std::string>());
  }
  for (const std::string& name : models)
    list.push_back({{"name", name}, {"annotations", {{"kind", "language model"}}}});
  return list;
}

bool ByModel(const json& proposer) {
  return proposer.is_object() &&
         (proposer.value("name", json()) == "llm" || proposer.contains("model"));
}

}  // namespace

GeneratedFiles Attestation(const BundleModel& model,
                           const std::map<std::string, std::string>& sums) {
  json subject = json::array(), byproducts = json::array(), variants = json::array(),
       lineage = json::array();
  for (const auto& [path, digest] : sums) {
    (path.starts_with("evidence/") ? byproducts : subject).push_back(Resource(path, digest));
  }
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const json& document = kernel.variant->provenance->document;
    const json& variant = document["variant"];
    variants.push_back(
        {{"id", kernel.id}, {"candidate_digest", variant.value("candidate_digest", json())}});
    lineage.push_back({{"variant", kernel.id},
                       {"job", variant.value("job_id", json())},
                       {"candidate_digest", variant.value("candidate_digest", json())},
                       {"parents", document.value("parents", json::array())},
                       {"supersedes", variant.value("supersedes", json(""))},
                       {"proposer", document.value("proposer", json::object())},
                       {"confirmation", document.value("confirmation", json::object())},
                       {"environment", document.value("environment", json::object())}});
  }
  const json statement = {
      {"_type", "https://in-toto.io/Statement/v1"},
      {"subject", subject},
      {"predicateType", "https://slsa.dev/provenance/v1"},
      {"predicate",
       {{"buildDefinition",
         {{"buildType", "urn:fettle:bundle:2"},
          {"externalParameters",
           {{"task", {{"name", model.task->name()}, {"digest", model.task->digest()}}},
            {"version", model.version},
            {"variants", variants},
            {"targets", model.targets}}},
          {"internalParameters", {{"digest", model.digest}}},
          {"resolvedDependencies", Dependencies(model)}}},
        {"runDetails",
         {{"builder", {{"id", "urn:fettle:tool"}, {"version", {{"fettle", FETTLE_VERSION}}}}},
          {"metadata", {{"invocationId", model.digest}, {"finishedOn", TimeOf(model)}}},
          {"byproducts", byproducts}}}}}};
  return {
      {"provenance/slsa.intoto.json", CanonicalJson(statement) + "\n"},
      {"provenance/lineage.json", CanonicalJson({{"format", 1}, {"variants", lineage}}) + "\n"}};
}

std::string Sbom(const BundleModel& model, const std::map<std::string, std::string>& files) {
  const std::string name = model.task->name();
  json entries = json::array(), relations = json::array(), contents = json::array();
  std::vector<std::string> sums;
  int index = 0;
  for (const auto& [path, bytes] : files) {
    const std::string id = fmt::format("SPDXRef-File-{}", index++);
    const std::string sha1 = Sha1Hex(bytes);
    sums.push_back(sha1);
    const bool source =
        path.starts_with("src/") || path.starts_with("include/") || path.starts_with("task/");
    entries.push_back({{"fileName", "./" + path},
                       {"SPDXID", id},
                       {"fileTypes",
                        {path.starts_with("objects/") ? "BINARY"
                         : source                     ? "SOURCE"
                                                      : "OTHER"}},
                       {"checksums",
                        {{{"algorithm", "SHA1"}, {"checksumValue", sha1}},
                         {{"algorithm", "SHA256"}, {"checksumValue", Sha256Hex(bytes)}}}},
                       {"licenseConcluded",
                        path.starts_with("include/fettle/") ? "Apache-2.0" : model.task->license()},
                       {"copyrightText", "NOASSERTION"}});
    contents.push_back(id);
  }
  std::sort(sums.begin(), sums.end());
  std::string all;
  for (const std::string& sum : sums) all += sum;
  json annotations = json::array();
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const json proposer = kernel.variant->provenance->document.value("proposer", json::object());
    annotations.push_back(
        {{"annotationType", "OTHER"},
         {"annotator", fmt::format("Tool: fettle-{}", FETTLE_VERSION)},
         {"annotationDate", TimeOf(model)},
         {"comment",
          fmt::format("variant {}: source {}", kernel.id,
                      ByModel(proposer) ? "generated by a language model"
                                        : "of the task's author; a tuner chose its parameters")}});
  }
  const json document = {
      {"spdxVersion", "SPDX-2.3"},
      {"dataLicense", "CC0-1.0"},
      {"SPDXID", "SPDXRef-DOCUMENT"},
      {"name", fmt::format("{}-{}", name, model.version)},
      {"documentNamespace", fmt::format("urn:fettle:bundle:{}", model.digest)},
      {"creationInfo",
       {{"created", TimeOf(model)},
        {"creators", {fmt::format("Tool: fettle-{}", FETTLE_VERSION)}}}},
      {"packages",
       {{{"name", name},
         {"SPDXID", "SPDXRef-Package"},
         {"versionInfo", model.version},
         {"downloadLocation", "NOASSERTION"},
         {"filesAnalyzed", true},
         {"packageVerificationCode", {{"packageVerificationCodeValue", Sha1Hex(all)}}},
         {"licenseConcluded", model.task->license()},
         {"licenseDeclared", model.task->license()},
         {"copyrightText", "NOASSERTION"},
         {"hasFiles", contents},
         {"annotations", annotations}}}},
      {"files", entries},
      {"relationships",
       {{{"spdxElementId", "SPDXRef-DOCUMENT"},
         {"relationshipType", "DESCRIBES"},
         {"relatedSpdxElement", "SPDXRef-Package"}}}}};
  return CanonicalJson(document) + "\n";
}

std::string LicenseText(const std::string& license) {
  if (license == "Apache-2.0") {
    for (const EmbeddedFile& file : ExporterRuntimeFiles()) {
      if (file.name == "LICENSE") return std::string(file.bytes);
    }
  }
  return fmt::format("SPDX-License-Identifier: {}\n\nHeaders below include/fettle: Apache-2.0.\n",
                     license);
}

}  // namespace fettle
