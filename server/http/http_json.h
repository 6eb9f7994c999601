// SPDX-License-Identifier: Apache-2.0
#pragma once

// Answers as JSON, errors in one shape, and the headers that guard all of them.

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "server/http/message.h"

namespace fettle {

HttpResponse JsonResponse(const nlohmann::json& json);

// {"error": {"code": "NOT_FOUND", "message": "...", "field": "job_id"}}: code as in gRPC; field
// where one is at fault.
HttpResponse ErrorResponse(const absl::Status& status);
int HttpStatusOf(absl::StatusCode code);

// A request's body as a JSON object, nested at most 32 deep: what handles JSON later may recurse.
// kInvalidArgument otherwise.
absl::StatusOr<nlohmann::json> ParseJsonBody(const std::string& body);

// Head of a text/event-stream.
HttpResponse StreamHead();

// Nothing may guess types, frame, refer to or embed an answer.
void AddGuardHeaders(HttpResponse& response);

// Seeds have 64 bits, more than a browser's numbers hold: they become text, at any depth.
nlohmann::json SeedsAsText(nlohmann::json document);

}  // namespace fettle
