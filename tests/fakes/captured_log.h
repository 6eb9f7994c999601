// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace fettle {

// What is logged while it lives, instead of on standard error. Made before, and destroyed after,
// every thread that logs.
class CapturedLog {
 public:
  CapturedLog() : sink_(std::make_shared<Sink>()), before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("captured", sink_));
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  // Lines that hold `text`.
  std::ptrdiff_t Count(std::string_view text) const {
    const std::lock_guard lock(sink_->lines_mutex);
    return std::count_if(sink_->lines.begin(), sink_->lines.end(), [text](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

 private:
  struct Sink final : spdlog::sinks::base_sink<std::mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::lock_guard lock(lines_mutex);
      lines.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}
    std::mutex lines_mutex;
    std::vector<std::string> lines;  // Guarded by lines_mutex.
  };

  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace fettle
