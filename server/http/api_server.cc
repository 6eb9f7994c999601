// SPDX-License-Identifier: Apache-2.0
// Calls about workers, devices and the server itself.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "proto/wire_json.h"
#include "server/http/api.h"
#include "server/http/api_parts.h"
#include "server/http/http_json.h"
#include "server/worker_report.h"
#include "store/device_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr int kHealthEvaluations = 2'000;
constexpr std::size_t kMaxDriftPoints = 400;

double Quantile(std::vector<double> sorted, double q) {
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[at];
}

// What recent evaluations say about one model of device on one host.
struct Health {
  std::set<std::string> drivers, compilers;
  std::vector<double> spreads;
  std::int64_t cases = 0, blocks = 0, discarded = 0, last_ns = 0;
  // What the floors of its cases were made with: a case's rate over its fraction of the roofline is
  // the memory ceiling where memory binds it, and less elsewhere.
  double memory_ceiling = 0;
  Json reports = Json::array();  // Of workers, one for each device of that model.
  std::vector<const RecentCase*> rows;
};

// The denominator's time over its median in the same job and case: 1 on a device that does not
// drift.
Json Drift(const std::vector<const RecentCase*>& rows) {
  std::map<std::string, std::vector<double>> times;
  const auto key = [](const RecentCase& one) { return one.job_id + "\n" + one.case_label; };
  for (const RecentCase* one : rows) {
    if (one->a_median_ns > 0) times[key(*one)].push_back(one->a_median_ns);
  }
  std::map<std::string, double> medians;
  for (const auto& [name, values] : times) medians[name] = Quantile(values, 0.5);
  Json points = Json::array();
  const std::size_t step = rows.size() / kMaxDriftPoints + 1;
  for (std::size_t i = 0; i < rows.size(); i += step) {
    const RecentCase& one = *rows[i];
    const double median = medians[key(one)];
    if (!(median > 0) || times[key(one)].size() < 2) continue;
    points.push_back({{"time_ns", one.stored_ns},
                      {"relative", one.a_median_ns / median},
                      {"job_id", one.job_id},
                      {"task", one.task_name},
                      {"case", one.case_label}});
  }
  return points;
}

absl::StatusOr<HttpResponse> Devices(const OptimizerCalls& calls) {
  std::vector<RecentCase> cases;
  std::vector<DeviceReportRow> reports;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(cases, RecentCases(db, kHealthEvaluations));
    FETTLE_ASSIGN_OR_RETURN(reports, ListDeviceReports(db, ""));
    return absl::OkStatus();
  }));
  std::map<std::pair<std::string, std::string>, Health> devices;
  for (const DeviceReportRow& report : reports) {
    devices[{report.model, report.host}].reports.push_back(DeviceReportJson(report));
  }
  for (const RecentCase& one : cases) {
    Health& health = devices[{one.device_model, one.host}];
    if (!one.driver.empty()) health.drivers.insert(one.driver);
    if (!one.compiler.empty()) health.compilers.insert(one.compiler);
    if (one.aa_spread > 0) health.spreads.push_back(one.aa_spread);
    if (one.roofline_fraction > 0) {
      health.memory_ceiling =
          std::max(health.memory_ceiling, one.bytes_per_s / one.roofline_fraction);
    }
    ++health.cases;
    health.blocks += one.blocks;
    health.discarded += one.discarded_blocks;
    health.last_ns = std::max(health.last_ns, one.stored_ns);
    health.rows.push_back(&one);
  }
  Json list = Json::array();
  for (const auto& [name, health] : devices) {
    list.push_back({{"device_model", name.first},
                    {"host", name.second},
                    {"drivers", health.drivers},
                    {"compilers", health.compilers},
                    {"measured_cases", health.cases},
                    {"blocks", health.blocks},
                    {"discarded_blocks", health.discarded},
                    {"aa_spread_median", Quantile(health.spreads, 0.5)},
                    {"aa_spread_p95", Quantile(health.spreads, 0.95)},
                    {"memory_ceiling_bytes_per_s", health.memory_ceiling},
                    {"last_ns", health.last_ns},
                    {"reports", health.reports},
                    {"drift", Drift(health.rows)}});
  }
  return JsonResponse({{"devices", std::move(list)}});
}

absl::StatusOr<HttpResponse> MeasuredCeilings(const OptimizerCalls& calls,
                                              const ApiRequest& request) {
  std::vector<DeviceReportRow> reports;
  FETTLE_RETURN_IF_ERROR(calls.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(reports, ListDeviceReports(db, request.http.Query("target")));
    return absl::OkStatus();
  }));
  Json list = Json::array();
  for (const DeviceReportRow& report : reports) {
    Json one = DeviceReportJson(report);
    if (!one["ceilings"].is_null()) list.push_back(std::move(one));
  }
  return JsonResponse({{"devices", std::move(list)}});
}

}  // namespace

void Api::AddServerRoutes() {
  const OptimizerCalls& calls = calls_;
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/workers",
                     .summary = "Connected workers with their devices and compilers",
                     .answer = "WorkerList",
                     .call = [&calls](const ApiRequest&) -> absl::StatusOr<HttpResponse> {
                       Json workers = Json::array();
                       const v1::ListWorkersResponse list = calls.ListWorkers();
                       for (const v1::Worker& one : list.workers()) {
                         workers.push_back(ToJson(one));
                       }
                       return JsonResponse({{"workers", std::move(workers)}});
                     }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/devices",
                     .summary =
                         "What workers report and recent measurements say about each device: "
                         "ceilings, A/A figures, health; A/A spread, discarded blocks, drift "
                         "of the denominator's time",
                     .answer = "DeviceList",
                     .call = [&calls](const ApiRequest&) { return Devices(calls); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/ceilings",
                     .summary = "Devices whose ceilings workers have measured",
                     .query = {"target"},
                     .answer = "CeilingList",
                     .call = [&calls](const ApiRequest& r) { return MeasuredCeilings(calls, r); }});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/server",
                     .summary = "The server",
                     .answer = "ServerInfo",
                     .call = [&calls](const ApiRequest&) -> absl::StatusOr<HttpResponse> {
                       const v1::GetServerInfoResponse info = calls.GetServerInfo();
                       return JsonResponse({{"version", info.version()},
                                            {"data_dir_id", info.data_dir_id()},
                                            {"schema_version", info.schema_version()},
                                            {"now_ns", calls.parts().clock.NowNs()}});
                     }});
  routes_.push_back(
      {.method = "GET",
       .pattern = "/api/v1/blobs/{digest}",
       .summary = "The bytes with that SHA-256: task files, code objects, transcripts",
       .call = [&calls](const ApiRequest& request) -> absl::StatusOr<HttpResponse> {
         HttpResponse response;
         FETTLE_ASSIGN_OR_RETURN(response.body,
                                 calls.parts().store.blobs().Get(request.parameters[0]));
         response.content_type = "application/octet-stream";
         AttachAs(response, request.parameters[0]);
         return response;
       },
       .long_call = true});
  routes_.push_back({.method = "GET",
                     .pattern = "/metrics",
                     .summary = "Figures of the service for Prometheus, in its text format",
                     .call = [this](const ApiRequest&) -> absl::StatusOr<HttpResponse> {
                       HttpResponse response;
                       FETTLE_ASSIGN_OR_RETURN(response.body, metrics_.Text());
                       response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                       return response;
                     },
                     .long_call = true});
  routes_.push_back({.method = "GET",
                     .pattern = "/api/v1/openapi.json",
                     .summary = "This description",
                     .answer = "Any",
                     .call = [this](const ApiRequest&) -> absl::StatusOr<HttpResponse> {
                       return JsonResponse(OpenApi());
                     }});
  for (const char* method : {"GET", "POST", "DELETE"}) {
    const bool post = std::string_view(method) == "POST";
    routes_.push_back({.method = method,
                       .pattern = "/api/v1/session",
                       .summary = post ? "Log in; answers with a cookie"
                                  : std::string_view(method) == "GET" ? "Who is logged in"
                                                                      : "Log out",
                       .body = post ? "LoginRequest" : "",
                       .answer = "Session",
                       .kind = ApiRoute::Kind::kSession});
  }
}

}  // namespace fettle
