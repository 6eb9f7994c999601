// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <absl/status/status.h>
#include <grpcpp/support/server_callback.h>

#include "server/access.h"
#include "server/executor.h"
#include "server/grpc_status.h"

namespace fettle {

// Runs the body of a unary call on the executor and finishes the call once with its status, or ends
// it at once where `allowed` is an error. Request, response and context live until then.
inline grpc::ServerUnaryReactor* RunAllowed(Executor& executor,
                                            grpc::CallbackServerContext* context,
                                            const absl::Status& allowed,
                                            std::function<absl::Status()> body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!allowed.ok()) {
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

// The same for a call that a token's role decides about.
inline grpc::ServerUnaryReactor* RunUnary(Executor& executor, grpc::CallbackServerContext* context,
                                          const Access& access, AccessRole needed,
                                          std::function<absl::Status()> body) {
  return RunAllowed(executor, context, access.Check(*context, needed), std::move(body));
}

// A unary call that ends with `status` at once.
inline grpc::ServerUnaryReactor* RefuseUnary(const absl::Status& status) {
  class Refused final : public grpc::ServerUnaryReactor {
   public:
    explicit Refused(const absl::Status& why) { Finish(ToGrpcStatus(why)); }
    void OnDone() override { delete this; }
  };
  return new Refused(status);
}

}  // namespace fettle
