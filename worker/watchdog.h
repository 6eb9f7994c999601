// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "device/device.h"

namespace fettle {

// Calls `expired` when an armed limit passes. Its thread starts before the runner gives up the
// right to make threads. Arming is two stores and wakes nothing, so that it may stand inside a
// timed span; the thread looks every 20 ms. Thread-safe.
class Watchdog {
 public:
  using Expired = std::function<void(const std::string& what)>;
  // What the limit bounds. kProcessorTime: the process has also used at least half of the limit of
  // processor time, or four times the limit has passed; so a machine that is too busy to run the
  // process does not make its work late. Right for work on the processor alone.
  enum class Bounds { kWallTime, kProcessorTime };
  explicit Watchdog(Expired expired, Bounds bounds = Bounds::kWallTime);
  ~Watchdog();

  // `what` must be a literal: "a launch".
  void Arm(std::chrono::nanoseconds limit, const char* what);
  void Disarm();

 private:
  void Watch(const std::stop_token& stop);

  bool Starved(std::int64_t deadline);

  const Expired expired_;
  const Bounds bounds_;
  // Of the watching thread: the deadline it saw last, and the processor time used when it first
  // did.
  std::int64_t seen_deadline_ns_ = 0, seen_used_ns_ = 0;
  std::atomic<const char*> what_{nullptr};
  std::atomic<std::int64_t> limit_ns_{0};
  std::atomic<std::int64_t> deadline_ns_{0};  // Of the steady clock; 0: not armed.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

// `inner` with every call that waits for candidate code under the watchdog. On the cpu a launch
// runs in the calling thread, where nothing else can end it. Both must outlive the result.
std::unique_ptr<Device> WatchDevice(Device& inner, Watchdog& watchdog,
                                    std::chrono::nanoseconds limit);

// Changes the limit of a device made by WatchDevice.
void SetLaunchLimit(Device& watched, std::chrono::nanoseconds limit);

}  // namespace fettle
