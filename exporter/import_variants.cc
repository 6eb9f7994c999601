// SPDX-License-Identifier: Apache-2.0
#include "exporter/import_variants.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/evidence_check.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

using nlohmann::json;

// The job that the imported variants of one task and target belong to.
JobRow ImportJob(const VariantProvenance& variant, const std::string& origin) {
  JobRow job;
  const std::string name =
      fmt::format("import:{}:{}:{}", origin, variant.task_digest, variant.target);
  job.id = "import-" + Sha256Hex(name).substr(0, 16);
  job.request_id = name;
  job.request_digest = Sha256Hex(name);
  job.task_digest = variant.task_digest;
  job.proposer = "replay";
  job.options_json = "{}";
  job.created_ns = IntegerAt(variant.document["variant"], "accepted_ns");
  job.target = variant.target;
  job.device_model = TextAt(variant.document, "device_model");
  job.toolchain = TextAt(variant.document, "toolchain");
  job.state = job_state::kSucceeded;
  job.stage = job_stage::kSearch;
  job.message = "imported from " + origin;
  job.space_size = "0";
  job.started_ns = job.finished_ns = job.created_ns;
  return job;
}

VariantRow RowOf(const VariantProvenance& variant, const std::string& job_id,
                 std::int64_t ordinal) {
  const json& part = variant.document["variant"];
  VariantRow row;
  row.id = variant.id;
  row.job_id = job_id;
  row.ordinal = ordinal;
  row.candidate_digest = TextAt(part, "candidate_digest");
  row.task_digest = variant.task_digest;
  row.target = variant.target;
  row.device_model = TextAt(variant.document, "device_model");
  row.toolchain = TextAt(variant.document, "toolchain");
  row.status = variant.status;
  row.status_reason = TextAt(part, "status_reason");  // An export shows it: it must stay the same.
  row.values_json = variant.values.dump();
  row.ratio = variant.ratio;
  row.ratio_low = variant.ratio_low;
  row.ratio_high = variant.ratio_high;
  row.ratio_declared = NumberAt(part, "ratio_declared");
  row.ratio_tuned = NumberAt(part, "ratio_tuned");
  row.roofline_fraction = NumberAt(part, "roofline_fraction");
  row.is_tuned_baseline = part.value("is_tuned_baseline", json(false)) == json(true);
  row.parent_variant = TextAt(part, "supersedes");
  row.accepted_ns = IntegerAt(part, "accepted_ns");
  row.provenance_json = variant.document.dump(-1, ' ', false, kReplaceInvalid);
  return row;
}

absl::Status CopyBlobs(const VariantProvenance& variant, BlobStore& from, BlobStore& to) {
  std::vector<std::string> digests = {variant.task_blob};
  for (const ProvenanceBuild& build : variant.builds) digests.push_back(build.code_object);
  for (const std::string& digest : digests) {
    FETTLE_ASSIGN_OR_RETURN(const std::string bytes, from.Get(digest));
    FETTLE_RETURN_IF_ERROR(to.Put(bytes).status());
  }
  return absl::OkStatus();
}

absl::Status InsertOne(Connection& db, const VariantProvenance& variant,
                       const std::string& origin) {
  JobRow job = ImportJob(variant, origin);
  FETTLE_RETURN_IF_ERROR(
      InsertTask(db, {variant.task_digest, variant.task_name, variant.task_blob, job.created_ns}));
  FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> existing, FindJob(db, job.id));
  if (existing.has_value()) {
    job = *existing;
  } else {
    FETTLE_RETURN_IF_ERROR(InsertJob(db, job));
  }
  const std::int64_t ordinal = ++job.candidate_count;
  job.judged_count = ordinal;
  const double declared = NumberAt(variant.document["variant"], "ratio_declared");
  if (job.best_variant.empty() || declared > job.best_ratio_declared) {
    job.best_variant = variant.id;
    job.best_ratio_declared = declared;
    job.best_ratio_tuned = NumberAt(variant.document["variant"], "ratio_tuned");
  }
  FETTLE_RETURN_IF_ERROR(UpdateJob(db, job));
  KernelRow kernel;
  kernel.json = CanonicalJson(variant.kernel);
  kernel.digest = Sha256Hex(kernel.json);
  kernel.source_digest = Sha256Hex(TextAt(variant.kernel, "source"));
  FETTLE_RETURN_IF_ERROR(InsertKernel(db, kernel));
  const json proposer = variant.document.value("proposer", json::object());
  CandidateRow candidate;
  candidate.job_id = job.id;
  candidate.ordinal = ordinal;
  candidate.digest = TextAt(variant.document["variant"], "candidate_digest");
  candidate.kernel_digest = kernel.digest;
  candidate.values_json = variant.values.dump();
  candidate.proposer = TextAt(proposer, "name");
  candidate.technique = TextAt(proposer, "technique");
  candidate.rationale = TextAt(proposer, "rationale");
  candidate.state = candidate_state::kJudged;
  candidate.judged_order = ordinal;
  candidate.verdict = "WIN";
  candidate.verdict_json = json{
      {"verdict", "WIN"},
      {"stage", "confirm"},
      {"reason_code", "imported"},
      {"message", "imported from " + origin},
      {"case", ""},
      {"evidence",
       json::object()}}.dump();
  candidate.ratio = variant.ratio;
  candidate.created_ns = candidate.judged_ns = job.created_ns;
  FETTLE_RETURN_IF_ERROR(InsertCandidate(db, candidate));
  return InsertVariant(db, RowOf(variant, job.id, ordinal));
}

}  // namespace

absl::StatusOr<ImportReport> ImportVariants(Store& store,
                                            std::span<const VariantProvenance> variants,
                                            BlobStore& from, const std::string& origin) {
  ImportReport report;
  std::vector<const VariantProvenance*> fresh;
  for (const VariantProvenance& variant : variants) {
    FETTLE_RETURN_IF_ERROR(CheckEvidence(variant, from).status());
    std::optional<VariantRow> known;
    FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(known, FindVariant(db, variant.id));
      return absl::OkStatus();
    }));
    if (known.has_value() && known->id == variant.id) {
      if (known->candidate_digest != TextAt(variant.document["variant"], "candidate_digest")) {
        return absl::AlreadyExistsError(
            fmt::format("import variant {}: another variant has that id here", variant.id));
      }
      report.known.push_back(variant.id);
      continue;
    }
    FETTLE_RETURN_IF_ERROR(CopyBlobs(variant, from, store.blobs()));
    fresh.push_back(&variant);
  }
  const absl::Status stored = store.Write([&](Connection& db) -> absl::Status {
    for (const VariantProvenance* variant : fresh) {
      FETTLE_RETURN_IF_ERROR(InsertOne(db, *variant, origin));
    }
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(stored);
  for (const VariantProvenance* variant : fresh) report.imported.push_back(variant->id);
  return report;
}

}  // namespace fettle
