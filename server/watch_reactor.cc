// SPDX-License-Identifier: Apache-2.0
#include "server/watch_reactor.h"

#include <optional>

#include "server/errors.h"
#include "server/event_page.h"
#include "server/grpc_status.h"
#include "server/limits.h"

namespace fettle {

WatchReactor* WatchReactor::Start(const Store& store, EventHub& hub, Executor& executor,
                                  std::string job_id, std::int64_t after_sequence) {
  std::shared_ptr<WatchReactor> reactor(
      new WatchReactor(store, hub, executor, std::move(job_id), after_sequence));
  reactor->self_ = reactor;
  reactor->subscription_ = hub.Subscribe(reactor->job_id_, [weak = std::weak_ptr(reactor)] {
    if (const auto alive = weak.lock()) alive->Ring();
  });
  reactor->Advance();
  return reactor.get();
}

void WatchReactor::Ring() {
  {
    const std::lock_guard lock(mutex_);
    rung_ = true;
  }
  Advance();
}

void WatchReactor::Advance() {
  std::optional<grpc::Status> verdict;
  bool fetch = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kIdle) return;
    if (cancelled_) {
      verdict = grpc::Status(grpc::StatusCode::CANCELLED, "watch cancelled");
    } else if (!page_.empty()) {
      message_ = std::move(page_.front());
      page_.pop_front();
    } else if (!failure_.ok()) {
      verdict = ToGrpcStatus(failure_);
    } else if (ended_) {
      verdict = grpc::Status::OK;
    } else if (hub_.closed()) {
      verdict = ToGrpcStatus(errors::ShuttingDown());
    } else if (rung_) {
      rung_ = false;
      fetch = true;
    } else {
      return;  // Nothing to send; the bell will call again.
    }
    state_ = verdict ? State::kFinishing : fetch ? State::kFetching : State::kWriting;
  }
  // This thread alone may start an operation now, so it does so unlocked. After Finish the object
  // may already be gone.
  if (verdict) {
    Finish(*std::move(verdict));
  } else if (!fetch) {
    StartWrite(&message_);
  } else if (!executor_.PostUrgent([self = shared_from_this()] { self->Fetch(); })) {
    {
      const std::lock_guard lock(mutex_);
      state_ = State::kFinishing;
    }
    Finish(ToGrpcStatus(errors::ShuttingDown()));
  }
}

void WatchReactor::Fetch() {
  std::int64_t after = 0;
  {
    const std::lock_guard lock(mutex_);
    after = cursor_;
  }
  absl::StatusOr<EventPage> page = ReadEventPage(store_, job_id_, after, limits::kWatchPage);
  {
    const std::lock_guard lock(mutex_);
    if (page.ok()) {
      if (!page->events.empty()) cursor_ = page->events.back().sequence();
      page_ = std::move(page->events);
      ended_ = page->ended;
      rung_ = rung_ || page->more;
    } else {
      failure_ = page.status();
    }
    state_ = State::kIdle;
  }
  Advance();
}

void WatchReactor::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kIdle;
    cancelled_ = cancelled_ || !ok;
  }
  Advance();
}

void WatchReactor::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  Advance();
}

void WatchReactor::OnDone() {
  subscription_ = {};
  const std::shared_ptr<WatchReactor> last = std::move(self_);
}

}  // namespace fettle
