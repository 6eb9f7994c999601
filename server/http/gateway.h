// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/http/api.h"
#include "server/http/assets.h"
#include "server/http/job_feed.h"
#include "server/http/message.h"
#include "server/http/session_streams.h"
#include "server/http/sessions.h"
#include "server/optimizer_calls.h"

namespace fettle {

struct GatewayOptions {
  // "host:port" names under which browsers may reach the server; anything else is refused, so that
  // a foreign page cannot reach it under a name of its own (DNS rebinding).
  std::vector<std::string> hosts;
  bool tls = false;
};

// Everything between the transport and the calls: which host and origin may ask, who it is, what
// the role allows, which answer a path gets; and how answers are compressed, cached and guarded.
class HttpGateway final : public HttpHandler {
 public:
  // All references outlive the gateway.
  HttpGateway(const OptimizerCalls& calls, Sessions& sessions, const Assets& assets);
  // Ends the streams. Call before the executors of `calls` stop.
  void Stop() { feed_.Stop(); }
  // Answers from now on; until then every request is told to come back, since its own name depends
  // on the port that was bound.
  void Open(GatewayOptions options);

  std::size_t BodyLimit(const HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;

 private:
  absl::Status CheckSource(const HttpRequest& request) const;
  absl::StatusOr<Session> Identify(const HttpRequest& request) const;
  // Cross-site writes: a browser's session needs its token in a header that no form can set.
  absl::Status CheckWrite(const HttpRequest& request, const Session& session) const;
  void HandleApi(HttpRequest request, std::shared_ptr<HttpReply> reply);
  void HandleSession(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void LogOut(const HttpRequest& request, const Session& session,
              const std::shared_ptr<HttpReply>& reply);
  void OpenEvents(const HttpRequest& request, const Session& session, const std::string& job_id,
                  std::shared_ptr<HttpReply> reply);
  std::shared_ptr<HttpStreamSource> WhileOpen(const Session& session,
                                              std::shared_ptr<HttpStream> stream,
                                              std::shared_ptr<HttpStreamSource> source);
  std::string SetCookie(const std::string& value, std::int64_t max_age_s) const;
  HttpResponse SessionAnswer(const Session& session) const;
  void Finish(const HttpRequest& request, HttpResponse response,
              const std::shared_ptr<HttpReply>& reply) const;

  const OptimizerCalls& calls_;
  Sessions& sessions_;
  const Assets& assets_;
  GatewayOptions options_;  // Read once open_.
  std::atomic<bool> open_{false};
  const Api api_;
  SessionStreams streams_;
  JobFeed feed_;
};

}  // namespace fettle
