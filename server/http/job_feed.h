// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "server/event_hub.h"
#include "server/http/message.h"

namespace fettle {

// Tells pages which jobs are open and what became of them: each open page gets an event "jobs"
// with the jobs that changed, at most twice a second. The jobs are read once for all pages, and not
// at all while nothing happens or nobody looks.
class JobFeed {
 public:
  // Ids of the jobs that are open or have ended since a time; and one job as JSON (null: gone).
  struct Reader {
    std::function<std::vector<std::string>(std::int64_t since_ns)> jobs;
    std::function<nlohmann::json(const std::string& id)> job;
  };
  // `hub` and `clock` outlive the feed.
  JobFeed(EventHub& hub, Clock& clock, Reader reader,
          std::chrono::milliseconds pause = std::chrono::milliseconds(500));
  ~JobFeed();

  // A page's source; it first gets all open jobs.
  std::shared_ptr<HttpStreamSource> Join(std::shared_ptr<HttpStream> stream);
  // Ends the thread and the streams. Idempotent.
  void Stop();

 private:
  struct Page;
  // Apart, since a bell may still ring when the feed is gone.
  struct Signal {
    std::mutex mutex;
    std::condition_variable wake;
    bool rung = true;  // Guarded by mutex.
  };
  void Run();

  Clock& clock_;
  const Reader reader_;
  const std::chrono::milliseconds pause_;
  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  bool stopping_ = false;  // Guarded by signal_->mutex, as are the next two.
  std::vector<std::shared_ptr<Page>> joining_;
  std::vector<std::shared_ptr<Page>> pages_;
  std::map<std::string, std::string> shown_;  // Of the thread. JSON by id, as sent last.
  EventHub::Subscription subscription_;
  std::thread thread_;
};

}  // namespace fettle
