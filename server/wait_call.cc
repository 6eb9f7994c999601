// SPDX-License-Identifier: Apache-2.0
#include "server/wait_call.h"

#include "server/errors.h"
#include "server/grpc_status.h"

namespace fettle {

grpc::ServerUnaryReactor* WaitCall::Start(EventHub& hub, Executor& executor,
                                          const std::string& job_id,
                                          std::chrono::milliseconds limit,
                                          std::function<absl::StatusOr<bool>()> look) {
  std::shared_ptr<WaitCall> call(new WaitCall(hub, executor));
  call->self_ = call;
  call->look_ = std::move(look);
  call->subscription_ = hub.Subscribe(job_id, [weak = std::weak_ptr(call)] {
    if (const auto alive = weak.lock(); alive != nullptr) alive->Ring(/*expired=*/false);
  });
  call->alarm_.Set(std::chrono::system_clock::now() + limit, [weak = std::weak_ptr(call)](bool) {
    if (const auto alive = weak.lock()) alive->Ring(/*expired=*/true);
  });
  call->Ring(/*expired=*/limit.count() <= 0);
  return call.get();
}

void WaitCall::Ring(bool expired) {
  {
    const std::lock_guard lock(mutex_);
    expired_ |= expired;
    if (ended_) return;
    if (looking_) {
      rung_ = true;
      return;
    }
    looking_ = true;
  }
  if (hub_.closed() || !executor_.Post([self = shared_from_this()] { self->Look(); })) {
    {
      const std::lock_guard lock(mutex_);
      looking_ = false;
    }
    End(hub_.closed() ? errors::ShuttingDown()
                      : absl::ResourceExhaustedError("too many calls wait; try again"));
  }
}

void WaitCall::Look() {
  bool last = false;
  bool ended = false;
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    last = expired_;
    rung_ = false;
    ended = ended_;
    status = status_;
  }
  if (ended) return Finish(ToGrpcStatus(status));  // Cancelled while the look was queued.
  const absl::StatusOr<bool> over = look_();
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    looking_ = false;
    ended = ended_;
    status = status_;
    again = rung_ || (expired_ && !last);
  }
  if (ended) return Finish(ToGrpcStatus(status));
  if (!over.ok()) return End(over.status());
  if (*over || last) return End(absl::OkStatus());
  if (again) Ring(/*expired=*/false);
}

void WaitCall::End(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    status_ = status;
    // Request and response live until Finish: a look under way finishes the call.
    if (looking_) return;
  }
  Finish(ToGrpcStatus(status));
}

void WaitCall::OnDone() {
  alarm_.Cancel();
  subscription_ = {};
  const std::shared_ptr<WaitCall> last = std::move(self_);
}

}  // namespace fettle
