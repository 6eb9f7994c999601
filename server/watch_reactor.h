// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include <absl/status/status.h>
#include <grpcpp/support/server_callback.h>

#include "fettle/v1/optimizer.pb.h"
#include "server/event_hub.h"
#include "server/executor.h"
#include "store/store.h"

namespace fettle {

// Streams one job's events after a sequence number, oldest first, then follows new ones until the
// terminal event. Events are read from the store in pages on the executor; a client that does not
// read costs one cursor and one page.
//
// At most one operation is under way at a time. `state_` says who may start the next: whoever moves
// it out of kIdle, and nobody else. Operations start outside the lock. The object keeps itself
// alive until OnDone.
class WatchReactor final : public grpc::ServerWriteReactor<v1::JobEvent>,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  // All references outlive the stream.
  static WatchReactor* Start(const Store& store, EventHub& hub, Executor& executor,
                             std::string job_id, std::int64_t after_sequence);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class State { kIdle, kFetching, kWriting, kFinishing };

  WatchReactor(const Store& store, EventHub& hub, Executor& executor, std::string job_id,
               std::int64_t after_sequence)
      : store_(store),
        hub_(hub),
        executor_(executor),
        job_id_(std::move(job_id)),
        cursor_(after_sequence) {}

  void Ring();
  // Starts the next operation if there is one to start.
  void Advance();
  void Fetch();

  const Store& store_;
  EventHub& hub_;
  Executor& executor_;
  const std::string job_id_;
  std::shared_ptr<WatchReactor> self_;  // Reset by OnDone.
  EventHub::Subscription subscription_;

  std::mutex mutex_;
  State state_ = State::kIdle;     // Guarded by mutex_.
  bool cancelled_ = false;         // Guarded by mutex_.
  bool rung_ = true;               // Guarded by mutex_. There may be more to read.
  bool ended_ = false;             // Guarded by mutex_. Nothing follows the page.
  absl::Status failure_;           // Guarded by mutex_.
  std::deque<v1::JobEvent> page_;  // Guarded by mutex_.
  std::int64_t cursor_;            // Guarded by mutex_. Last sequence read.
  v1::JobEvent message_;           // Owned by gRPC while kWriting.
};

}  // namespace fettle
