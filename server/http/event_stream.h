// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "server/event_hub.h"
#include "server/executor.h"
#include "server/http/message.h"
#include "store/store.h"

namespace fettle {

// One message of a text/event-stream. `id` 0: none.
std::string ServerSentEvent(std::int64_t id, std::string_view name, const nlohmann::json& data);

// Streams one job's events after a sequence number as server-sent events whose ids are the sequence
// numbers, so that a browser resumes by itself. After the terminal event comes an event "end", then
// the stream closes. A client that does not read costs one page.
class EventStream final : public HttpStreamSource,
                          public std::enable_shared_from_this<EventStream> {
 public:
  // All references outlive the stream. The job exists.
  static std::shared_ptr<EventStream> Start(const Store& store, EventHub& hub, Executor& executor,
                                            std::string job_id, std::int64_t after_sequence,
                                            std::shared_ptr<HttpStream> stream);
  void Ready() override;
  void Gone() override;

 private:
  EventStream(const Store& store, EventHub& hub, Executor& executor, std::string job_id,
              std::int64_t after_sequence, std::shared_ptr<HttpStream> stream)
      : store_(store),
        hub_(hub),
        executor_(executor),
        job_id_(std::move(job_id)),
        stream_(std::move(stream)),
        cursor_(after_sequence) {}
  void Ring();
  // Reads a page on the executor if there may be one and the client took the last one.
  void Advance();
  void Fetch();

  const Store& store_;
  EventHub& hub_;
  Executor& executor_;
  const std::string job_id_;
  const std::shared_ptr<HttpStream> stream_;
  EventHub::Subscription subscription_;

  std::mutex mutex_;
  bool rung_ = true;       // Guarded by mutex_. There may be more to read.
  bool taken_ = false;     // Guarded by mutex_. The client took what was written.
  bool fetching_ = false;  // Guarded by mutex_.
  bool gone_ = false;      // Guarded by mutex_.
  std::int64_t cursor_;    // Guarded by mutex_. Last sequence written.
};

}  // namespace fettle
