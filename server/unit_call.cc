// SPDX-License-Identifier: Apache-2.0
#include "server/unit_call.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/ids.h"

namespace fettle {

grpc::ServerUnaryReactor* UnitCall::Start(Dispatcher& dispatcher, EventHub& hub, Executor& executor,
                                          std::function<absl::StatusOr<WorkUnit>()> prepare,
                                          std::function<absl::Status(const UnitEnd&)> complete,
                                          std::function<void(std::int64_t, bool)> charge) {
  std::shared_ptr<UnitCall> call(new UnitCall(dispatcher, hub, executor));
  call->self_ = call;
  call->complete_ = std::move(complete);
  call->charge_ = std::move(charge);
  call->subscription_ = hub.Subscribe("", [weak = std::weak_ptr(call), &hub] {
    const auto alive = weak.lock();
    if (alive != nullptr && hub.closed()) alive->End(errors::ShuttingDown());
  });
  if (!executor.Post([call, prepare = std::move(prepare)] { call->Prepare(prepare); })) {
    call->End(absl::ResourceExhaustedError("too many calls wait; try again"));
  }
  return call.get();
}

void UnitCall::Prepare(const std::function<absl::StatusOr<WorkUnit>()>& prepare) {
  if (!Enter()) return;
  absl::StatusOr<WorkUnit> unit = prepare();
  Leave();
  if (!unit.ok()) return End(unit.status());
  UnitTicket ticket;
  ticket.durable = false;
  ticket.unit = *std::move(unit);
  ticket.row.id = RandomId("u");
  ticket.row.kind = std::string(UnitKindName(ticket.unit.kind));
  ticket.charge = charge_;
  ticket.done = [self = shared_from_this()](UnitEnd outcome) {
    auto shared = std::make_shared<UnitEnd>(std::move(outcome));
    self->executor_.PostUrgent([self, shared] {
      self->dispatcher_.Settle(shared->unit.id);
      if (!shared->has_result) {
        self->End(absl::UnavailableError(
            fmt::format("given up after {} attempts: {}", shared->unit.attempt, shared->reason)));
        return;
      }
      if (!self->Enter()) return;
      const absl::Status status = self->complete_(*shared);
      self->Leave();
      self->End(status);
    });
  };
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    unit_id_ = ticket.row.id;
  }
  if (hub_.closed()) return End(errors::ShuttingDown());
  dispatcher_.Enqueue(std::move(ticket));
}

void UnitCall::End(const absl::Status& status) {
  std::string unit_id;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    status_ = status;
    unit_id = unit_id_;
    if (busy_) return;  // No unit is under way then; Leave finishes.
  }
  // A no-op for a unit that is done.
  if (!unit_id.empty()) dispatcher_.CancelUnit(unit_id);
  Finish(ToGrpcStatus(status));
}

bool UnitCall::Enter() {
  const std::lock_guard lock(mutex_);
  busy_ = !ended_;
  return busy_;
}

void UnitCall::Leave() {
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    if (!ended_) return;
    status = status_;
  }
  Finish(ToGrpcStatus(status));
}

void UnitCall::OnDone() {
  subscription_ = {};
  const std::shared_ptr<UnitCall> last = std::move(self_);
}

}  // namespace fettle
