// SPDX-License-Identifier: Apache-2.0
#include "server/provenance.h"

#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "store/candidate_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxParents = 1'000;

Json VariantPart(const VariantRow& variant) {
  return {{"id", variant.id},
          {"status", variant.status},
          {"job_id", variant.job_id},
          {"candidate_digest", variant.candidate_digest},
          {"accepted_ns", variant.accepted_ns},
          {"values", Json::parse(variant.values_json, nullptr, /*allow_exceptions=*/false)},
          {"ratio", variant.ratio},
          {"ratio_low", variant.ratio_low},
          {"ratio_high", variant.ratio_high},
          {"ratio_declared", variant.ratio_declared},
          {"ratio_tuned", variant.ratio_tuned},
          {"is_tuned_baseline", variant.is_tuned_baseline},
          {"roofline_fraction", variant.roofline_fraction},
          {"supersedes", variant.parent_variant}};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParentChain(Connection& db, const std::string& job_id,
                                                     const CandidateRow& candidate) {
  std::vector<std::string> chain;
  std::string parent = candidate.parent;
  while (!parent.empty() && chain.size() < kMaxParents) {
    chain.push_back(parent);
    FETTLE_ASSIGN_OR_RETURN(const std::optional<CandidateRow> row,
                            FindCandidateByDigest(db, job_id, parent));
    if (!row.has_value() || row->parent == parent) break;
    parent = row->parent;
  }
  return chain;
}

nlohmann::json BuildProvenance(const ProvenanceInput& in) {
  const UnitResult& confirmation = *in.confirmation;
  Json document;
  document["format"] = 1;
  document["variant"] = VariantPart(*in.variant);
  document["task"] = {
      {"name", in.task->name()}, {"digest", in.task->digest()}, {"blob", in.task_blob}};
  document["target"] = in.job->target;
  document["device"] =
      confirmation.measurement.has_value() ? confirmation.measurement->device : Json::object();
  document["device_model"] = in.job->device_model;
  document["toolchain"] = in.job->toolchain;
  document["kernel"] = ToJson(in.kernel->kernel);
  document["baseline"] = {{"kernel", ToJson(in.task->baseline())},
                          {"values", in.task->baseline().values}};
  document["denominator"] = {{"digest", in.denominator->digest},
                             {"kernel", ToJson(in.denominator->kernel)},
                             {"values", in.denominator->values},
                             {"tuned_variant", in.job->tuned_variant}};
  document["parents"] = in.parents;
  document["proposer"] = {{"name", in.candidate->proposer},
                          {"technique", in.candidate->technique},
                          {"rationale", in.candidate->rationale},
                          {"seed", in.job->seed}};
  document["confirmation"] = {{"number", in.job->confirmations + 1},
                              {"unit", in.confirm_unit->id},
                              {"attempt", in.confirm_unit->attempt},
                              {"seed", in.confirm_unit->seed},
                              {"held_out_seed", in.confirm_unit->held_out_seed}};
  const Json result = ToJson(confirmation);
  document["builds"] = result.value("builds", Json::array());
  document["verification"] = result.value("verification", Json());
  document["measurement"] = result.value("measurement", Json());
  document["against_incumbent"] = result.value("against_incumbent", Json());
  const Json search = Json::parse(in.search_result_json, nullptr, /*allow_exceptions=*/false);
  document["search_measurement"] =
      search.is_object() ? search.value("measurement", Json()) : Json();
  document["environment"] = confirmation.environment;
  document["fettle_version"] = in.fettle_version;
  return document;
}

}  // namespace fettle
