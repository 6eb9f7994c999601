// SPDX-License-Identifier: Apache-2.0
#pragma once

// The HTTP/JSON mirror of the calls, under /api/v1: which path is which call, and what it needs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "server/access.h"
#include "server/http/fact_summaries.h"
#include "server/http/message.h"
#include "server/http/metrics.h"
#include "server/optimizer_calls.h"

namespace fettle {

struct ApiRequest {
  const HttpRequest& http;
  const std::vector<std::string>& parameters;  // What the pattern's {names} stand for, in order.
};

struct ApiRoute {
  enum class Kind { kCall, kSession, kEvents, kJobFeed };
  std::string method;
  std::string pattern;  // "/api/v1/jobs/{job}"
  AccessRole role = AccessRole::kRead;
  std::string summary;
  std::vector<std::string> query;  // Names of query parameters.
  std::string body;                // Schema of the request's body, in schemas.json; empty: none.
  std::string answer;              // Schema of the answer, there too; empty: bytes.
  std::function<absl::StatusOr<HttpResponse>(const ApiRequest&)> call;  // Kind::kCall only.
  Kind kind = Kind::kCall;
  bool long_call = false;
  std::size_t body_bytes = 0;  // Larger than the usual body.
};

struct ApiMatch {
  const ApiRoute* route = nullptr;  // Null: no such call.
  std::vector<std::string> parameters;
  std::string allow;  // Methods of the path, where only the method is wrong.
};

// Thread-safe; calls block on the database.
class Api {
 public:
  // `calls` outlives this object.
  explicit Api(const OptimizerCalls& calls);

  ApiMatch Find(const HttpRequest& request) const;
  const std::vector<ApiRoute>& routes() const { return routes_; }

  // For the feed of jobs.
  std::vector<std::string> OpenOrEndedJobs(std::int64_t since_ns) const;
  nlohmann::json JobOrNull(const std::string& id) const;

  // OpenAPI 3.1.
  nlohmann::json OpenApi() const;

 private:
  void AddJobRoutes();
  void AddVariantRoutes();
  void AddServerRoutes();

  const OptimizerCalls& calls_;
  mutable FactSummaries facts_;
  mutable Metrics metrics_;
  std::vector<ApiRoute> routes_;
};

}  // namespace fettle
