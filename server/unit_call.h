// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include "core/work_unit.h"
#include "server/dispatcher.h"
#include "server/event_hub.h"
#include "server/executor.h"

namespace fettle {

// A call that waits for one work unit outside any job. Ends when the unit does, when the client
// gives up (the worker is told to stop), or when the server stops. Keeps itself alive until OnDone.
class UnitCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<UnitCall> {
 public:
  // `prepare` makes the unit and `complete` turns its outcome into the response; both run on the
  // executor and may use the call's request and response. All references outlive the call.
  // `charge`: UnitTicket::charge, also after the call.
  static grpc::ServerUnaryReactor* Start(Dispatcher& dispatcher, EventHub& hub, Executor& executor,
                                         std::function<absl::StatusOr<WorkUnit>()> prepare,
                                         std::function<absl::Status(const UnitEnd&)> complete,
                                         std::function<void(std::int64_t, bool)> charge = {});

  void OnCancel() override { End(absl::CancelledError("the call was cancelled")); }
  void OnDone() override;

 private:
  UnitCall(Dispatcher& dispatcher, EventHub& hub, Executor& executor)
      : dispatcher_(dispatcher), hub_(hub), executor_(executor) {}
  void Prepare(const std::function<absl::StatusOr<WorkUnit>()>& prepare);
  void End(const absl::Status& status);
  // Request and response live until Finish, so that it waits for `prepare` and `complete`: Enter
  // says whether to run one, Leave ends the call where its end came meanwhile.
  bool Enter();
  void Leave();

  Dispatcher& dispatcher_;
  EventHub& hub_;
  Executor& executor_;
  std::function<absl::Status(const UnitEnd&)> complete_;
  std::function<void(std::int64_t, bool)> charge_;
  std::shared_ptr<UnitCall> self_;       // Reset by OnDone.
  EventHub::Subscription subscription_;  // Rings when the server stops.

  std::mutex mutex_;
  std::string unit_id_;  // Guarded by mutex_. Set while the unit is under way.
  bool busy_ = false;    // Guarded by mutex_. `prepare` or `complete` runs.
  bool ended_ = false;   // Guarded by mutex_.
  absl::Status status_;  // Guarded by mutex_. What the call ended with.
};

}  // namespace fettle
