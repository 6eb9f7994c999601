// SPDX-License-Identifier: Apache-2.0
#include "server/http/session_streams.h"

#include <utility>

namespace fettle {

class SessionStreams::Guarded final : public HttpStreamSource {
 public:
  Guarded(std::shared_ptr<HttpStream> stream, std::shared_ptr<HttpStreamSource> source,
          std::function<bool()> open)
      : stream_(std::move(stream)), source_(std::move(source)), open_(std::move(open)) {}

  void Ready() override {
    if (!open_()) return stream_->Close();
    source_->Ready();
  }
  void Gone() override { source_->Gone(); }
  void CloseIfEnded() {
    if (!open_()) stream_->Close();
  }

 private:
  const std::shared_ptr<HttpStream> stream_;
  const std::shared_ptr<HttpStreamSource> source_;
  const std::function<bool()> open_;
};

std::shared_ptr<HttpStreamSource> SessionStreams::Guard(std::shared_ptr<HttpStream> stream,
                                                        std::shared_ptr<HttpStreamSource> source,
                                                        std::function<bool()> open) {
  auto guarded = std::make_shared<Guarded>(std::move(stream), std::move(source), std::move(open));
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& one) { return one.expired(); });
  streams_.push_back(guarded);
  return guarded;
}

void SessionStreams::CloseEnded() {
  std::vector<std::shared_ptr<Guarded>> alive;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : streams_) {
      if (auto one = weak.lock()) alive.push_back(std::move(one));
    }
  }
  for (const auto& one : alive) one->CloseIfEnded();
}

}  // namespace fettle
