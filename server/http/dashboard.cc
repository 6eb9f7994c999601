// SPDX-License-Identifier: Apache-2.0
#include "server/http/dashboard.h"

#include <charconv>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "server/http/assets.h"
#include "server/http/gateway.h"
#include "server/http/http_server.h"
#include "server/http/sessions.h"

namespace fettle {
namespace {

bool IsLoopback(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

class RunningDashboard final : public Dashboard {
 public:
  RunningDashboard(const OptimizerCalls& calls, std::unique_ptr<Sessions> sessions)
      : sessions_(std::move(sessions)),
        assets_(DashboardPack()),
        gateway_(calls, *sessions_, assets_) {}
  ~RunningDashboard() override { Stop(); }

  absl::Status Begin(DashboardOptions options) {
    const auto colon = options.endpoint.rfind(':');
    std::string host = options.endpoint.substr(0, colon);
    HttpServerOptions http;
    http.host = host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
    const std::string port = options.endpoint.substr(colon + 1);
    std::from_chars(port.data(), port.data() + port.size(), http.port);
    http.any_port_if_taken = options.any_port_if_taken;
    http.tls_certificate = std::move(options.tls_certificate);
    http.tls_key = std::move(options.tls_key);
    const bool tls = !http.tls_certificate.empty();
    FETTLE_ASSIGN_OR_RETURN(server_, HttpServer::Start(std::move(http), gateway_));
    GatewayOptions gateway;
    gateway.tls = tls;
    std::vector<std::string> hosts = {host};
    if (IsLoopback(host)) hosts = {host, "127.0.0.1", "localhost", "[::1]"};
    const int default_port = tls ? 443 : 80;
    for (const std::string& name : hosts) {
      gateway.hosts.push_back(fmt::format("{}:{}", name, server_->port()));
      if (server_->port() == default_port) gateway.hosts.push_back(name);
    }
    gateway.hosts.insert(gateway.hosts.end(), options.names.begin(), options.names.end());
    const std::string shown = options.names.empty() ? gateway.hosts.front() : options.names.front();
    link_ =
        fmt::format("{}://{}/login#{}", tls ? "https" : "http", shown, sessions_->login_secret());
    gateway_.Open(std::move(gateway));
    return absl::OkStatus();
  }

  std::string login_link() const override { return link_; }
  void Stop() override {
    gateway_.Stop();
    if (server_ != nullptr) server_->Stop();
  }

 private:
  const std::unique_ptr<Sessions> sessions_;
  const Assets assets_;
  HttpGateway gateway_;
  std::unique_ptr<HttpServer> server_;
  std::string link_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dashboard>> Dashboard::Start(DashboardOptions options,
                                                            const OptimizerCalls& calls) {
  const OptimizerParts& parts = calls.parts();
  FETTLE_ASSIGN_OR_RETURN(
      std::unique_ptr<Sessions> sessions,
      Sessions::Open(parts.store.data_dir().string(), parts.store.data_dir_id(), parts.access));
  auto dashboard = std::make_unique<RunningDashboard>(calls, std::move(sessions));
  FETTLE_RETURN_IF_ERROR(dashboard->Begin(std::move(options)));
  return std::unique_ptr<Dashboard>(std::move(dashboard));
}

}  // namespace fettle
