// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "server/optimizer_calls.h"

namespace fettle {

struct DashboardOptions {
  std::string endpoint;  // "host:port"; port 0: any.
  bool any_port_if_taken = false;
  std::vector<std::string> names;        // Further "host:port" by which browsers reach it.
  std::string tls_certificate, tls_key;  // PEM; both or none.
};

// The dashboard and the HTTP API of a server.
class Dashboard {
 public:
  // `calls` and what it names outlive the dashboard. kUnavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<Dashboard>> Start(DashboardOptions options,
                                                          const OptimizerCalls& calls);
  virtual ~Dashboard() = default;
  // "http://127.0.0.1:7650/login#<secret>"
  virtual std::string login_link() const = 0;
  // Ends streams and connections. Call before the executors of `calls` stop. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace fettle
