// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include <absl/status/statusor.h>
#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include "server/event_hub.h"
#include "server/executor.h"

namespace fettle {

// A call that waits for something in a job, without a thread of its own: looks at each of the job's
// events, and ends at the latest after `limit`. Keeps itself alive until OnDone.
class WaitCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<WaitCall> {
 public:
  // `look` runs on the executor, fills the response and says whether the wait is over. The last
  // look is followed by the end whatever it says. All references outlive the call.
  static grpc::ServerUnaryReactor* Start(EventHub& hub, Executor& executor,
                                         const std::string& job_id, std::chrono::milliseconds limit,
                                         std::function<absl::StatusOr<bool>()> look);

  void OnCancel() override { End(absl::CancelledError("the call was cancelled")); }
  void OnDone() override;

 private:
  WaitCall(EventHub& hub, Executor& executor) : hub_(hub), executor_(executor) {}
  void Ring(bool expired);
  void Look();
  void End(const absl::Status& status);

  EventHub& hub_;
  Executor& executor_;
  std::function<absl::StatusOr<bool>()> look_;
  std::shared_ptr<WaitCall> self_;  // Reset by OnDone.
  EventHub::Subscription subscription_;
  grpc::Alarm alarm_;

  std::mutex mutex_;
  bool looking_ = false;  // Guarded by mutex_. A look is queued or runs.
  bool rung_ = false;     // Guarded by mutex_. Look once more after that.
  bool expired_ = false;  // Guarded by mutex_.
  bool ended_ = false;    // Guarded by mutex_.
  absl::Status status_;   // Guarded by mutex_. What the call ended with.
};

}  // namespace fettle
