// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_json.h"

#include <set>
#include <string>

#include <fmt/format.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/limits.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

// The field that a message names: "job_id: no job ...".
std::string FieldOf(const std::string& message) {
  const auto colon = message.find(": ");
  if (colon == std::string::npos || colon == 0) return "";
  for (const char c : message.substr(0, colon)) {
    const bool name = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                      c == '-' || c == '[' || c == ']';
    if (!name) return "";
  }
  return message.substr(0, colon);
}

Json SeedText(Json value) {
  if (value.is_array()) {
    for (Json& one : value) one = SeedText(std::move(one));
    return value;
  }
  return value.is_number_integer() ? Json(value.dump()) : value;
}

}  // namespace

absl::StatusOr<Json> ParseJsonBody(const std::string& body) {
  if (JsonNesting(body) > kMaxPartNesting) {
    return errors::BadField("body",
                            fmt::format("must not nest more than {} deep", kMaxPartNesting));
  }
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return errors::BadField("body", "must be a JSON object");
  return json;
}

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpResponse JsonResponse(const Json& json) {
  HttpResponse response;
  response.body = json.dump(-1, ' ', false, kReplaceInvalid);
  return response;
}

HttpResponse ErrorResponse(const absl::Status& status) {
  const std::string message = CutText(ValidUtf8(StatusText(status)), limits::kMaxErrorMessageBytes);
  Json error = {{"code", absl::StatusCodeToString(status.code())}, {"message", message}};
  if (const std::string field = FieldOf(message); !field.empty()) error["field"] = field;
  HttpResponse response = JsonResponse({{"error", std::move(error)}});
  response.status = HttpStatusOf(status.code());
  if (response.status == 429 || response.status == 503) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

HttpResponse StreamHead() {
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  AddGuardHeaders(head);
  return head;
}

void AddGuardHeaders(HttpResponse& response) {
  bool has_policy = false;
  for (const auto& [name, value] : response.headers) {
    has_policy = has_policy || name == "Content-Security-Policy";
  }
  if (!has_policy) {
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'none'; frame-ancestors 'none'; sandbox");
  }
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("X-Frame-Options", "DENY");
}

Json SeedsAsText(Json document) {
  static const std::set<std::string> kSeeds = {"seed", "seeds", "held_out_seed"};
  if (document.is_array()) {
    for (Json& entry : document) {
      if (entry.is_structured()) entry = SeedsAsText(std::move(entry));
    }
    return document;
  }
  if (!document.is_object()) return document;
  for (auto& [key, value] : document.items()) {
    if (kSeeds.contains(key)) {
      value = SeedText(std::move(value));
    } else if (value.is_structured()) {
      value = SeedsAsText(std::move(value));
    }
  }
  return document;
}

}  // namespace fettle
