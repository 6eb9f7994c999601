// SPDX-License-Identifier: Apache-2.0
#include "server/http/api.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "proto/wire_json.h"
#include "server/http/api_parts.h"
#include "server/http/http_json.h"
#include "server/http/schemas_data.h"
#include "store/views.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr int kMaxFeedJobs = 200;

std::vector<std::string_view> Segments(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    if (path.front() == '/') path.remove_prefix(1);
    const auto end = path.find('/');
    out.push_back(path.substr(0, end));
    path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  }
  return out;
}

bool IsParameter(std::string_view segment) { return segment.starts_with('{'); }

// Whether the path fits the pattern; fills the parameters.
bool Matches(std::string_view pattern, const std::vector<std::string_view>& path,
             std::vector<std::string>& parameters) {
  const std::vector<std::string_view> parts = Segments(pattern);
  if (parts.size() != path.size()) return false;
  parameters.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (IsParameter(parts[i])) {
      parameters.emplace_back(path[i]);
    } else if (parts[i] != path[i]) {
      return false;
    }
  }
  return true;
}

Json Parameter(std::string name, const char* in) {
  return {{"name", std::move(name)},
          {"in", in},
          {"required", std::string_view(in) == "path"},
          {"schema", {{"type", "string"}}}};
}

Json AnswerOf(const ApiRoute& route) {
  if (route.kind == ApiRoute::Kind::kEvents || route.kind == ApiRoute::Kind::kJobFeed) {
    return {{"description", "server-sent events"},
            {"content", {{"text/event-stream", {{"schema", {{"type", "string"}}}}}}}};
  }
  if (route.answer.empty()) {
    return {{"description", "a file"},
            {"content", {{"application/octet-stream", {{"schema", {{"type", "string"}}}}}}}};
  }
  return {
      {"description", "ok"},
      {"content",
       {{"application/json", {{"schema", {{"$ref", "#/components/schemas/" + route.answer}}}}}}}};
}

}  // namespace

Api::Api(const OptimizerCalls& calls) : calls_(calls), facts_(calls), metrics_(calls) {
  AddJobRoutes();
  AddVariantRoutes();
  AddServerRoutes();
}

ApiMatch Api::Find(const HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const std::vector<std::string_view> path = Segments(request.path);
  ApiMatch match;
  for (const ApiRoute& route : routes_) {
    std::vector<std::string> parameters;
    if (!Matches(route.pattern, path, parameters)) continue;
    if (route.method == method) {
      match.route = &route;
      match.parameters = std::move(parameters);
      return match;
    }
    match.allow += (match.allow.empty() ? "" : ", ") + route.method;
  }
  return match;
}

std::vector<std::string> Api::OpenOrEndedJobs(std::int64_t since_ns) const {
  std::vector<std::string> ids;
  const absl::Status read = calls_.parts().store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(ids, fettle::OpenOrEndedJobs(db, since_ns, kMaxFeedJobs));
    return absl::OkStatus();
  });
  if (!read.ok()) ids.clear();  // The next ring tries again.
  return ids;
}

Json Api::JobOrNull(const std::string& id) const {
  const absl::StatusOr<v1::Job> job = calls_.GetJob(id);
  return job.ok() ? SeedsAsText(ToJson(*job)) : Json();
}

Json Api::OpenApi() const {
  Json paths = Json::object();
  for (const ApiRoute& route : routes_) {
    Json operation = {
        {"summary", route.summary},
        {"responses",
         {{"200", AnswerOf(route)},
          {"default",
           {{"description", "error"},
            {"content",
             {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}};
    const bool login = route.kind == ApiRoute::Kind::kSession && route.method == "POST";
    operation["description"] =
        login ? "Needs no session." : fmt::format("Needs role {}.", RoleName(route.role));
    Json parameters = Json::array();
    for (const std::string_view segment : Segments(route.pattern)) {
      if (IsParameter(segment)) {
        parameters.push_back(Parameter(std::string(segment.substr(1, segment.size() - 2)), "path"));
      }
    }
    for (const std::string& name : route.query) parameters.push_back(Parameter(name, "query"));
    if (route.method != "GET" && !login) {
      Json csrf = Parameter("X-Fettle-CSRF", "header");
      csrf["description"] = "With a session's cookie: the csrf text of GET /api/v1/session.";
      parameters.push_back(std::move(csrf));
    }
    if (!parameters.empty()) operation["parameters"] = std::move(parameters);
    if (!route.body.empty()) {
      operation["requestBody"]["content"]["application/json"]["schema"]["$ref"] =
          "#/components/schemas/" + route.body;
    }
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    paths[route.pattern][method] = std::move(operation);
  }
  const Json schemas = Json::parse(HttpSchemas()[0].bytes);
  return {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "fettle"},
        {"version", calls_.parts().version},
        {"description",
         "The calls of the gRPC service as HTTP and JSON (docs/http.md). Times are nanoseconds "
         "since the epoch, seeds are text. Lists end with next_cursor, empty on the last page."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"security", Json::array({{{"token", Json::array()}}, {{"session", Json::array()}}})},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", schemas},
        {"securitySchemes",
         {{"token", {{"type", "http"}, {"scheme", "bearer"}}},
          {"session", {{"type", "apiKey"}, {"in", "cookie"}, {"name", "fettle_..."}}}}}}}};
}

}  // namespace fettle
