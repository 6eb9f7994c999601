// SPDX-License-Identifier: Apache-2.0
#include "server/http/fact_summaries.h"

#include "core/status_macros.h"
#include "proto/wire_json.h"

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
  FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, calls_.GetVariant(variant_id));
  Json summary = Summarize(variant.id(), ParseDocument(variant.provenance_json()));
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[variant_id] = summary;
  return summary;
}

}  // namespace fettle
