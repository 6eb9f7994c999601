// SPDX-License-Identifier: Apache-2.0
#include "server/http/gateway.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/http/event_stream.h"
#include "server/http/gzip.h"
#include "server/http/http_json.h"
#include "server/limits.h"
#include "store/job_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kApi = "/api/";
constexpr std::string_view kMetrics = "/metrics";  // Where Prometheus looks by default.
constexpr char kCsrfHeader[] = "x-fettle-csrf";
constexpr std::size_t kSmallBodyBytes = 64U << 10;
constexpr std::size_t kMinGzipBytes = 1024;

// Scripts and styles come from this server alone, nothing is inline, no page frames it, and no text
// can become markup (Trusted Types).
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

// Answered by a call; everything else is a page or one of its files.
bool IsCall(const std::string& path) { return path.starts_with(kApi) || path == kMetrics; }

bool IsRead(const std::string& method) { return method == "GET" || method == "HEAD"; }

std::string EtagOf(const std::string& body) {
  return fmt::format("W/\"{}\"", Sha256Hex(body).substr(0, 24));
}

}  // namespace

HttpGateway::HttpGateway(const OptimizerCalls& calls, Sessions& sessions, const Assets& assets)
    : calls_(calls),
      sessions_(sessions),
      assets_(assets),
      api_(calls),
      feed_(calls.parts().events, calls.parts().clock,
            {[this](std::int64_t since_ns) { return api_.OpenOrEndedJobs(since_ns); },
             [this](const std::string& id) { return api_.JobOrNull(id); }}) {}

void HttpGateway::Open(GatewayOptions options) {
  options_ = std::move(options);
  open_ = true;
}

std::size_t HttpGateway::BodyLimit(const HttpRequest& head) {
  if (IsRead(head.method)) return 0;
  const ApiMatch match = api_.Find(head);
  if (match.route == nullptr || match.route->body_bytes <= kSmallBodyBytes) return kSmallBodyBytes;
  const absl::StatusOr<Session> session = Identify(head);
  return session.ok() && Grants(session->role, match.route->role) ? match.route->body_bytes
                                                                  : kSmallBodyBytes;
}

absl::Status HttpGateway::CheckSource(const HttpRequest& request) const {
  const std::string& host = request.Header("host");
  if (std::find(options_.hosts.begin(), options_.hosts.end(), host) == options_.hosts.end()) {
    return absl::PermissionDeniedError(fmt::format(
        "host: this server does not answer to the name {}; use the address that it printed, or add "
        "the name with --http-name",
        CutText(ValidUtf8(host), 100)));
  }
  const std::string& origin = request.Header("origin");
  if (!origin.empty() && origin != fmt::format("{}://{}", options_.tls ? "https" : "http", host)) {
    return absl::PermissionDeniedError("origin: only pages of this server may call it");
  }
  const std::string& site = request.Header("sec-fetch-site");
  if (site == "cross-site" || site == "same-site") {
    // A link from elsewhere may open a page, and nothing else.
    if (IsCall(request.path) || request.Header("sec-fetch-mode") != "navigate") {
      return absl::PermissionDeniedError("origin: only pages of this server may call it");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Session> HttpGateway::Identify(const HttpRequest& request) const {
  if (const std::string& bearer = request.Header("authorization"); !bearer.empty()) {
    return sessions_.FromBearer(bearer);
  }
  const std::string cookie = CookieValue(request.Header("cookie"), sessions_.cookie_name());
  std::optional<Session> session = sessions_.FromCookie(cookie, calls_.parts().clock.NowNs());
  if (session.has_value()) return *std::move(session);
  return absl::UnauthenticatedError(
      cookie.empty() ? "log in with the link that `fettle serve` prints, or send a token"
                     : "the session has ended; open the link that `fettle serve` prints");
}

absl::Status HttpGateway::CheckWrite(const HttpRequest& request, const Session& session) const {
  if (session.id.empty()) return absl::OkStatus();  // A token in a header is not sent by itself.
  if (request.Header(kCsrfHeader) == sessions_.CsrfToken(session)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("{}: must hold the csrf token of GET /api/v1/session", kCsrfHeader));
}

HttpResponse HttpGateway::SessionAnswer(const Session& session) const {
  return JsonResponse({{"name", session.name},
                       {"role", RoleName(session.role)},
                       {"csrf", session.id.empty() ? "" : sessions_.CsrfToken(session)},
                       {"expires_ns", session.expires_ns}});
}

void HttpGateway::Finish(const HttpRequest& request, HttpResponse response,
                         const std::shared_ptr<HttpReply>& reply) const {
  if (IsCall(request.path)) {
    const bool cacheable = IsRead(request.method) && response.status == 200;
    if (cacheable) {
      const std::string etag = EtagOf(response.body);
      response.headers.emplace_back("ETag", etag);
      if (request.HasEtag(etag)) {
        response.status = 304;
        response.content_type.clear();
        response.body.clear();
      }
    }
    response.headers.emplace_back("Cache-Control", cacheable ? "private, no-cache" : "no-store");
    response.headers.emplace_back("Vary", "Accept-Encoding, Cookie, Authorization");
    if (response.body.size() >= kMinGzipBytes && response.content_type != "application/gzip" &&
        request.AcceptsGzip()) {
      response.body = Gzip(response.body);
      response.headers.emplace_back("Content-Encoding", "gzip");
    }
  }
  AddGuardHeaders(response);
  reply->Send(std::move(response));
}

void HttpGateway::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  if (!open_) return reply->Send(ErrorResponse(absl::UnavailableError("the server starts")));
  if (absl::Status allowed = CheckSource(request); !allowed.ok()) {
    return Finish(request, ErrorResponse(allowed), reply);
  }
  if (IsCall(request.path)) return HandleApi(std::move(request), std::move(reply));
  if (!IsRead(request.method)) {
    HttpResponse response = ErrorResponse(absl::UnimplementedError("method: pages are only read"));
    response.status = 405;
    response.headers.emplace_back("Allow", "GET, HEAD");
    return Finish(request, std::move(response), reply);
  }
  if (assets_.empty()) {
    HttpResponse response;
    response.content_type = "text/plain; charset=utf-8";
    response.body =
        "This fettle was built without its dashboard (FETTLE_DASHBOARD=OFF). The API is under "
        "/api/v1.\n";
    return Finish(request, std::move(response), reply);
  }
  std::optional<HttpResponse> file = assets_.Serve(request);
  if (!file.has_value()) file = ErrorResponse(absl::NotFoundError("path: there is no such file"));
  file->headers.emplace_back("Content-Security-Policy", kContentPolicy);
  Finish(request, *std::move(file), reply);
}

std::string HttpGateway::SetCookie(const std::string& value, std::int64_t max_age_s) const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}",
                     sessions_.cookie_name(), value, max_age_s, options_.tls ? "; Secure" : "");
}

// Writes a file, so not on the transport's thread.
void HttpGateway::LogOut(const HttpRequest& request, const Session& session,
                         const std::shared_ptr<HttpReply>& reply) {
  const bool posted = calls_.parts().executor.Post([this, request, session, reply] {
    const absl::Status ended = sessions_.End(session, calls_.parts().clock.NowNs());
    streams_.CloseEnded();
    HttpResponse response = ended.ok() ? JsonResponse(Json::object()) : ErrorResponse(ended);
    response.headers.emplace_back("Set-Cookie", SetCookie("", 0));
    Finish(request, std::move(response), reply);
  });
  if (!posted) Finish(request, ErrorResponse(errors::ShuttingDown()), reply);
}

void HttpGateway::HandleSession(const HttpRequest& request,
                                const std::shared_ptr<HttpReply>& reply) {
  if (request.method == "POST") {
    const absl::StatusOr<Json> body = ParseJsonBody(request.body);
    const auto token = body.ok() ? body->find("token") : Json::const_iterator();
    if (!body.ok() || token == body->end() || !token->is_string()) {
      return Finish(request,
                    ErrorResponse(errors::BadField("token", "send {\"token\": \"...\"} as JSON")),
                    reply);
    }
    const std::int64_t now = calls_.parts().clock.NowNs();
    const absl::StatusOr<Session> session = sessions_.LogIn(token->get<std::string>(), now);
    if (!session.ok()) return Finish(request, ErrorResponse(session.status()), reply);
    HttpResponse response = SessionAnswer(*session);
    response.headers.emplace_back(
        "Set-Cookie",
        SetCookie(sessions_.Cookie(*session), (session->expires_ns - now) / 1'000'000'000));
    return Finish(request, std::move(response), reply);
  }
  const absl::StatusOr<Session> session = Identify(request);
  if (!session.ok()) return Finish(request, ErrorResponse(session.status()), reply);
  if (IsRead(request.method)) return Finish(request, SessionAnswer(*session), reply);
  if (absl::Status allowed = CheckWrite(request, *session); !allowed.ok()) {
    return Finish(request, ErrorResponse(allowed), reply);
  }
  LogOut(request, *session, reply);
}

void HttpGateway::HandleApi(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const ApiMatch match = api_.Find(request);
  if (match.route == nullptr) {
    HttpResponse response = ErrorResponse(
        match.allow.empty()
            ? absl::NotFoundError("path: no such call; /api/v1/openapi.json lists them")
            : absl::UnimplementedError(fmt::format("method: use {}", match.allow)));
    if (!match.allow.empty()) {
      response.status = 405;
      response.headers.emplace_back("Allow", match.allow);
    }
    return Finish(request, std::move(response), reply);
  }
  if (match.route->kind == ApiRoute::Kind::kSession) return HandleSession(request, reply);
  absl::StatusOr<Session> session = Identify(request);
  if (session.ok() && !Grants(session->role, match.route->role)) {
    session = absl::PermissionDeniedError(
        fmt::format("{} has role {}; this call needs {}", ValidUtf8(session->name),
                    RoleName(session->role), RoleName(match.route->role)));
  }
  if (session.ok() && !IsRead(request.method)) {
    if (absl::Status allowed = CheckWrite(request, *session); !allowed.ok()) session = allowed;
  }
  if (!session.ok()) return Finish(request, ErrorResponse(session.status()), reply);

  const OptimizerParts& parts = calls_.parts();
  const bool streams =
      match.route->kind == ApiRoute::Kind::kJobFeed || match.route->kind == ApiRoute::Kind::kEvents;
  if (streams && request.method == "HEAD") return reply->Send(StreamHead());
  if (match.route->kind == ApiRoute::Kind::kJobFeed) {
    HttpResponse head = StreamHead();
    return reply->Stream(std::move(head),
                         [this, session = *session](std::shared_ptr<HttpStream> stream) {
                           return WhileOpen(session, stream, feed_.Join(stream));
                         });
  }
  if (match.route->kind == ApiRoute::Kind::kEvents) {
    return OpenEvents(request, *session, match.parameters.at(0), std::move(reply));
  }
  Executor& executor = match.route->long_call ? parts.long_calls : parts.executor;
  const bool posted = executor.Post([this, match, reply, request] {
    absl::StatusOr<HttpResponse> response = match.route->call({request, match.parameters});
    Finish(request, response.ok() ? *std::move(response) : ErrorResponse(response.status()), reply);
  });
  if (!posted) {
    Finish(request,
           ErrorResponse(
               absl::ResourceExhaustedError("too many calls wait, or the server stops; try again")),
           reply);
  }
}

std::shared_ptr<HttpStreamSource> HttpGateway::WhileOpen(const Session& session,
                                                         std::shared_ptr<HttpStream> stream,
                                                         std::shared_ptr<HttpStreamSource> source) {
  return streams_.Guard(std::move(stream), std::move(source), [this, session] {
    return sessions_.IsOpen(session, calls_.parts().clock.NowNs());
  });
}

void HttpGateway::OpenEvents(const HttpRequest& request, const Session& session,
                             const std::string& job_id, std::shared_ptr<HttpReply> reply) {
  // A browser that comes back says what it saw last in the header.
  std::string after_text = request.Header("last-event-id");
  if (after_text.empty()) after_text = request.Query("after");
  std::int64_t after = 0;
  if (!after_text.empty()) {
    const char* end = after_text.data() + after_text.size();
    const auto [rest, error] = std::from_chars(after_text.data(), end, after);
    if (error != std::errc() || rest != end || after < 0) {
      return Finish(request,
                    ErrorResponse(errors::BadField("after", "must be a number, 0 or larger")),
                    reply);
    }
  }
  const bool posted = calls_.parts().executor.Post([this, request, session, job_id, after, reply] {
    const absl::StatusOr<JobRow> job = calls_.Job(job_id);
    if (!job.ok()) return Finish(request, ErrorResponse(job.status()), reply);
    reply->Stream(StreamHead(), [this, session, job_id, after](std::shared_ptr<HttpStream> stream) {
      const OptimizerParts& parts = calls_.parts();
      return WhileOpen(
          session, stream,
          EventStream::Start(parts.store, parts.events, parts.executor, job_id, after, stream));
    });
  });
  if (!posted) Finish(request, ErrorResponse(errors::ShuttingDown()), reply);
}

}  // namespace fettle
