// SPDX-License-Identifier: Apache-2.0
#include "server/http/fact_summaries.h"

#include <optional>
#include <string_view>

#include "core/status_macros.h"
#include "server/errors.h"
#include "server/job_measures.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxKnown = 10'000;

const Json& MemberOf(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// The two members that a summary is made of; the samples, which are most of a provenance, are not
// even built in memory.
Json ParseParts(const std::string& text) {
  const auto wanted = [](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth != 1 || event != Json::parse_event_t::key) return true;
    return parsed == "builds" || parsed == "verification";
  };
  return Json::parse(text, wanted, /*allow_exceptions=*/false);
}

Json Summarize(const std::string& id, const Json& provenance) {
  Json builds = Json::array();
  for (const Json& build : MemberOf(provenance, "builds")) {
    builds.push_back({{"entries", MemberOf(build, "entries")},
                      {"compiler", MemberOf(build, "compiler")},
                      {"facts", MemberOf(build, "facts")}});
  }
  Json cases = Json::object();
  for (const Json& one : MemberOf(MemberOf(provenance, "verification"), "cases")) {
    const Json& label = MemberOf(one, "case");
    if (label.is_string()) cases[label.get<std::string>()] = MemberOf(one, "describe");
  }
  return {{"id", id}, {"builds", std::move(builds)}, {"cases", std::move(cases)}};
}

}  // namespace

absl::StatusOr<Json> FactSummaries::Of(const std::string& variant_id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(variant_id);
    if (found != known_.end()) return found->second;
  }
  FETTLE_RETURN_IF_ERROR(CheckId("variant_id", variant_id));
  std::optional<VariantRow> variant;
  std::optional<JobRow> job;
  FETTLE_RETURN_IF_ERROR(calls_.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(variant, FindVariant(db, variant_id));
    if (!variant.has_value()) return errors::NoSuchVariant(variant_id);
    FETTLE_ASSIGN_OR_RETURN(job, FindJob(db, variant->job_id));
    return absl::OkStatus();
  }));
  Json provenance = ParseParts(variant->provenance_json);
  const bool open = job.has_value() && !job->terminal();
  if (open) provenance = WithoutSecrets(std::move(provenance));
  Json summary = Summarize(variant->id, provenance);
  if (open) return summary;  // More is told once its job has ended.
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[variant_id] = summary;
  return summary;
}

}  // namespace fettle
