// SPDX-License-Identifier: Apache-2.0
// Calls about variants, their measurements and bundles.

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "proto/wire_json.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/http/api.h"
#include "server/http/api_parts.h"
#include "server/http/archive.h"
#include "server/http/http_json.h"
#include "server/limits.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr int kMaxCsvRows = 100'000;
constexpr std::size_t kMaxFactIds = 50;

struct SortName {
  const char* name;
  VariantSort sort;
};
constexpr std::array<SortName, 6> kSortNames = {{{"accepted", VariantSort::kAccepted},
                                                 {"ratio", VariantSort::kSpeedUp},
                                                 {"ratio_declared", VariantSort::kDeclared},
                                                 {"roofline_fraction", VariantSort::kRoofline},
                                                 {"task", VariantSort::kTask},
                                                 {"target", VariantSort::kTarget}}};

absl::Status CheckStatus(const std::string& status) {
  if (status.empty() || status == variant_status::kAccepted ||
      status == variant_status::kSuperseded || status == variant_status::kDemoted) {
    return absl::OkStatus();
  }
  return errors::BadField("status", "must be accepted, superseded, demoted, or empty");
}

absl::StatusOr<VariantSearch> ParseSearch(const HttpRequest& request) {
  VariantSearch search;
  search.task_name = request.Query("task");
  search.target = request.Query("target");
  search.device_model = request.Query("device");
  search.job_id = request.Query("job");
  search.status = request.Query("status");
  FETTLE_RETURN_IF_ERROR(CheckStatus(search.status));
  FETTLE_ASSIGN_OR_RETURN(search.words, QueryWords(request));
  std::string sort = request.Query("sort");
  if (!sort.empty() && sort.front() == '-') sort.erase(0, 1);
  search.ascending = !request.Query("sort").empty() && request.Query("sort").front() != '-';
  if (sort.empty()) return search;
  for (const SortName& known : kSortNames) {
    if (sort != known.name) continue;
    search.sort = known.sort;
    return search;
  }
  return errors::BadField("sort",
                          "must be accepted, ratio, ratio_declared, roofline_fraction, task or "
                          "target, with - before it for the largest first");
}

absl::StatusOr<HttpResponse> ListVariants(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const VariantSearch search, ParseSearch(request.http));
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  FETTLE_ASSIGN_OR_RETURN(const SortCursor after,
                          ParseCursor(request.http.Query("cursor"), search.sort));
  std::vector<VariantRow> rows;
  std::int64_t total = -1;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, SearchVariants(db, search, after, limit));
    if (after.id.empty()) {  // A first page that is not full holds them all.
      total = static_cast<std::int64_t>(rows.size());
      if (total == limit) {
        FETTLE_ASSIGN_OR_RETURN(total, CountVariants(db, search));
      }
    }
    return absl::OkStatus();
  }));
  Json variants = Json::array();
  for (const VariantRow& row : rows) variants.push_back(ToJson(VariantToProto(row)));
  const bool more = static_cast<int>(rows.size()) == limit;
  Json answer = {
      {"variants", std::move(variants)},
      {"next_cursor", more ? FormatCursor(CursorOf(rows.back(), search.sort), search.sort) : ""}};
  if (total >= 0) answer["total"] = total;  // On the first page.
  return JsonResponse(answer);
}

absl::StatusOr<HttpResponse> VariantsCsv(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const VariantSearch search, ParseSearch(request.http));
  std::vector<VariantRow> rows;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, SearchVariants(db, search, {}, kMaxCsvRows));
    return absl::OkStatus();
  }));
  HttpResponse response;
  response.content_type = "text/csv; charset=utf-8";
  response.body =
      "id,task,target,device_model,status,ratio,ratio_low,ratio_high,ratio_declared,ratio_tuned,"
      "roofline_fraction,is_tuned_baseline,accepted_ns,job_id,candidate_digest,values\r\n";
  for (const VariantRow& row : rows) {
    response.body += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", CsvCell(row.id),
        CsvCell(row.task_name), CsvCell(row.target), CsvCell(row.device_model), CsvCell(row.status),
        row.ratio, row.ratio_low, row.ratio_high, row.ratio_declared, row.ratio_tuned,
        row.roofline_fraction, row.is_tuned_baseline ? "true" : "false", row.accepted_ns,
        CsvCell(row.job_id), CsvCell(row.candidate_digest), CsvCell(row.values_json));
  }
  AttachAs(response, "fettle-variants.csv");
  return response;
}

absl::StatusOr<HttpResponse> GetVariant(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, calls.GetVariant(request.parameters[0]));
  return JsonResponse({{"variant", SeedsAsText(ToJson(variant))}});
}

absl::StatusOr<HttpResponse> Facts(FactSummaries& facts, const ApiRequest& request) {
  Json answer = Json::array();
  std::string ids = request.http.Query("ids") + ",";
  std::size_t count = 0;
  while (!ids.empty()) {
    const auto comma = ids.find(',');
    const std::string id = ids.substr(0, comma);
    ids.erase(0, comma + 1);
    if (id.empty()) continue;
    if (++count > kMaxFactIds) {
      return errors::BadField("ids", fmt::format("at most {} at once", kMaxFactIds));
    }
    FETTLE_ASSIGN_OR_RETURN(Json one, facts.Of(id));
    answer.push_back(std::move(one));
  }
  return JsonResponse({{"facts", std::move(answer)}});
}

absl::StatusOr<HttpResponse> Bundle(const OptimizerCalls& calls, const ApiRequest& request) {
  v1::ExportBundleRequest bundle;
  for (const auto& [name, value] : request.http.query) {
    if (name == "variant") bundle.add_variant_ids(value);
  }
  bundle.set_task_name(request.http.Query("task"));
  bundle.set_target(request.http.Query("target"));
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, calls.Bundle(bundle));
  const std::string name =
      bundle.variant_ids_size() == 1
          ? fmt::format("fettle-{}", bundle.variant_ids(0))
          : fmt::format("fettle-{}", bundle.task_name().empty() ? "variants" : bundle.task_name());
  HttpResponse response;
  response.content_type = "application/gzip";
  AttachAs(response, name + ".tar.gz");
  std::string top = name;
  for (char& c : top) {
    if (c == '/' || c == '\\') c = '_';
  }
  FETTLE_ASSIGN_OR_RETURN(response.body, TarGz(files, top));
  return response;
}

absl::StatusOr<HttpResponse> Catalog(const OptimizerCalls& calls) {
  std::vector<CatalogEntry> entries;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(entries, ListCatalog(db));
    return absl::OkStatus();
  }));
  Json list = Json::array();
  for (const CatalogEntry& entry : entries) {
    list.push_back({{"task", entry.task_name},
                    {"target", entry.target},
                    {"device_model", entry.device_model},
                    {"variants", entry.variants}});
  }
  return JsonResponse({{"entries", std::move(list)}});
}

absl::StatusOr<HttpResponse> Cases(const OptimizerCalls& calls, const ApiRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const int limit,
                          QueryLimit(request.http, limits::kDefaultPageSize, limits::kMaxPageSize));
  FETTLE_ASSIGN_OR_RETURN(const auto before, ParseTimeToken(request.http.Query("cursor")));
  const CaseSearch search{request.http.Query("task"), request.http.Query("target"),
                          request.http.Query("status")};
  FETTLE_RETURN_IF_ERROR(CheckStatus(search.status));
  std::vector<VariantCase> cases;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(cases,
                            ListVariantCases(db, search, before.first, before.second, limit));
    return absl::OkStatus();
  }));
  Json rows = Json::array();
  std::size_t variants = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const VariantCase& one = cases[i];
    if (i == 0 || one.variant_id != cases[i - 1].variant_id) ++variants;
    rows.push_back({{"variant_id", one.variant_id},
                    {"task", one.task_name},
                    {"task_digest", one.task_digest},
                    {"target", one.target},
                    {"device_model", one.device_model},
                    {"status", one.status},
                    {"case", one.measured.case_label},
                    {"baseline_ns", one.measured.a_median_ns},
                    {"variant_ns", one.measured.b_median_ns},
                    {"ratio", one.measured.ratio},
                    {"ratio_low", one.measured.ratio_low},
                    {"ratio_high", one.measured.ratio_high},
                    {"bytes_per_s", one.measured.bytes_per_s},
                    {"flops_per_s", one.measured.flops_per_s},
                    {"floor_ns", one.measured.floor_ns},
                    {"roofline_fraction", one.measured.roofline_fraction}});
  }
  const bool more = static_cast<int>(variants) == limit;
  return JsonResponse(
      {{"cases", std::move(rows)},
       {"next_cursor", more ? TimeToken(cases.back().accepted_ns, cases.back().variant_id) : ""}});
}

}  // namespace

void Api::AddVariantRoutes() {
  const OptimizerCalls& calls = calls_;
  FactSummaries& facts = facts_;
  const std::vector<std::string> search = {"task",   "target", "device", "job",
                                           "status", "q",      "sort"};
  std::vector<std::string> paged = search;
  paged.insert(paged.end(), {"limit", "cursor"});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/variants",
                     .summary = "The catalogue of variants, searched and sorted; newest first",
                     .query = paged,
                     .answer = "VariantList",
                     .call = [&calls](const ApiRequest& r) { return ListVariants(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/variants.csv",
                     .summary = "The same list as CSV",
                     .query = search,
                     .call = [&calls](const ApiRequest& r) { return VariantsCsv(calls, r); },
                     .long_call = true});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/variants/facts",
                     .summary = "Facts of the builds and the cases of some variants: ids, by comma",
                     .query = {"ids"},
                     .answer = "FactList",
                     .call = [&facts](const ApiRequest& r) { return Facts(facts, r); },
                     .long_call = true});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/variants/{variant}",
                     .summary = "One variant with its whole provenance; a prefix is enough",
                     .answer = "VariantAnswer",
                     .call = [&calls](const ApiRequest& r) { return GetVariant(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/bundle",
                     .summary = "A bundle as .tar.gz: of variants (repeated), or of a task",
                     .query = {"variant", "task", "target"},
                     .call = [&calls](const ApiRequest& r) { return Bundle(calls, r); },
                     .long_call = true});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/catalog",
                     .summary = "Tasks, targets and device models that have variants",
                     .answer = "Catalog",
                     .call = [&calls](const ApiRequest&) { return Catalog(calls); }});
  routes_.push_back(
      {.method = "GET",
       .pattern = "/api/v1/cases",
       .summary = "Timed cases of variants, from their confirmations; limit counts variants",
       .query = {"task", "target", "status", "limit", "cursor"},
       .answer = "CaseList",
       .call = [&calls](const ApiRequest& r) { return Cases(calls, r); }});
}

}  // namespace fettle
