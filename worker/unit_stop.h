// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace fettle {

// Requests a stop when the caller's token does or a deadline passes.
class UnitStop {
 public:
  UnitStop(const std::stop_token& outer, std::chrono::milliseconds limit)
      : forward_(outer, [this] { source_.request_stop(); }),
        timer_([this, limit](std::stop_token end) {
          std::unique_lock lock(mutex_);
          wake_.wait_for(lock, end, limit, [] { return false; });
          if (end.stop_requested()) return;
          expired_ = true;
          source_.request_stop();
        }) {}

  std::stop_token token() const { return source_.get_token(); }
  bool expired() const {
    const std::lock_guard lock(mutex_);
    return expired_;
  }

 private:
  std::stop_source source_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool expired_ = false;  // Guarded by mutex_.
  std::stop_callback<std::function<void()>> forward_;
  std::jthread timer_;
};

}  // namespace fettle
