// SPDX-License-Identifier: Apache-2.0
#include "server/http/job_feed.h"

#include <atomic>

#include <pthread.h>

#include "core/text.h"
#include "server/http/event_stream.h"

namespace fettle {

using Json = nlohmann::json;

struct JobFeed::Page final : HttpStreamSource {
  explicit Page(std::shared_ptr<HttpStream> to) : stream(std::move(to)) {}
  void Ready() override {}
  void Gone() override { gone = true; }

  const std::shared_ptr<HttpStream> stream;
  std::atomic<bool> gone{false};
};

JobFeed::JobFeed(EventHub& hub, Clock& clock, Reader reader, std::chrono::milliseconds pause)
    : clock_(clock), reader_(std::move(reader)), pause_(pause) {
  subscription_ = hub.SubscribeAll([signal = signal_] {
    {
      const std::lock_guard lock(signal->mutex);
      signal->rung = true;
    }
    signal->wake.notify_all();
  });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "job-feed");
    Run();
  });
}

JobFeed::~JobFeed() { Stop(); }

void JobFeed::Stop() {
  {
    const std::lock_guard lock(signal_->mutex);
    stopping_ = true;
  }
  signal_->wake.notify_all();
  if (thread_.joinable()) thread_.join();
  subscription_ = {};
  for (auto* pages : {&pages_, &joining_}) {
    for (const auto& page : *pages) page->stream->Close();
    pages->clear();
  }
}

std::shared_ptr<HttpStreamSource> JobFeed::Join(std::shared_ptr<HttpStream> stream) {
  auto page = std::make_shared<Page>(std::move(stream));
  {
    const std::lock_guard lock(signal_->mutex);
    joining_.push_back(page);
  }
  signal_->wake.notify_all();
  return page;
}

void JobFeed::Run() {
  std::int64_t since_ns = clock_.NowNs();
  while (true) {
    std::vector<std::shared_ptr<Page>> joining;
    std::vector<std::shared_ptr<Page>> pages;
    {
      std::unique_lock lock(signal_->mutex);
      signal_->wake.wait(lock, [this] {
        std::erase_if(pages_, [](const auto& page) { return page->gone.load(); });
        return stopping_ || !joining_.empty() || (signal_->rung && !pages_.empty());
      });
      if (stopping_) return;
      signal_->rung = false;
      joining.swap(joining_);
      pages = pages_;
    }
    std::map<std::string, std::string> now;
    Json changed = Json::array();
    Json all = Json::array();
    const std::int64_t began_ns = clock_.NowNs();
    for (const std::string& id : reader_.jobs(since_ns)) {
      Json job = reader_.job(id);
      if (!job.is_null()) now[id] = job.dump(-1, ' ', false, kReplaceInvalid);
      const auto before = shown_.find(id);
      if (before == shown_.end() || before->second != now[id]) changed.push_back(job);
      all.push_back(std::move(job));
    }
    // One that ended while the last round read it as open has an earlier end than that round.
    for (const auto& [id, text] : shown_) {
      if (now.contains(id)) continue;
      Json job = reader_.job(id);
      if (!job.is_null() && job.dump(-1, ' ', false, kReplaceInvalid) != text) {
        changed.push_back(std::move(job));
      }
    }
    since_ns = began_ns;
    shown_ = std::move(now);
    if (!changed.empty()) {
      const std::string text = ServerSentEvent(0, "jobs", {{"jobs", changed}, {"all", false}});
      for (const auto& page : pages) page->stream->Write(text);
    }
    if (!joining.empty()) {
      const std::string text = ServerSentEvent(0, "jobs", {{"jobs", all}, {"all", true}});
      for (const auto& page : joining) page->stream->Write(text);
    }
    std::unique_lock lock(signal_->mutex);
    for (auto& page : joining) pages_.push_back(std::move(page));
    if (signal_->wake.wait_for(lock, pause_, [this] { return stopping_; })) return;
  }
}

}  // namespace fettle
