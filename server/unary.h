// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <absl/status/status.h>
#include <grpcpp/support/server_callback.h>

#include "server/access.h"
#include "server/executor.h"
#include "server/grpc_status.h"

namespace fettle {

// Runs the body of a unary call on the executor and finishes the call once with its status.
// Request, response and context live until then. This is where every unary call is authorized.
inline grpc::ServerUnaryReactor* RunUnary(Executor& executor, grpc::CallbackServerContext* context,
                                          const Access& access, AccessRole needed,
                                          std::function<absl::Status()> body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (absl::Status allowed = access.Check(*context, needed); !allowed.ok()) {
    reactor->Finish(ToGrpcStatus(allowed));
    return reactor;
  }
  if (!executor.Post(
          [reactor, body = std::move(body)] { reactor->Finish(ToGrpcStatus(body())); })) {
    reactor->Finish(ToGrpcStatus(
        absl::ResourceExhaustedError("too many calls wait, or the server stops; try again")));
  }
  return reactor;
}

}  // namespace fettle
