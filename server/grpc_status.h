// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "server/limits.h"

namespace fettle {

static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

// The two enums share their numbers. Truncates the message: gRPC sends it in a header. The details
// tell a client that the server itself answered.
inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string name = ErrorCodeOf(status);
  return {static_cast<grpc::StatusCode>(status.code()),
          CutText(StatusText(status), limits::kMaxErrorMessageBytes),
          name.empty() ? kAnsweredDetails : name};
}

}  // namespace fettle
