// SPDX-License-Identifier: Apache-2.0
#include "worker/lane_gate.h"

namespace fettle {

LaneGate::Ticket LaneGate::EnterCompile(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const bool free = changed_.wait(lock, stop, [this] {
    return !timing_ && timings_waiting_ == 0 && compiling_ < compile_jobs_;
  });
  if (!free) return {};
  ++compiling_;
  return Ticket(this, /*timing=*/false);
}

LaneGate::Ticket LaneGate::EnterTiming(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  ++timings_waiting_;
  const bool free = changed_.wait(lock, stop, [this] { return !timing_ && compiling_ == 0; });
  --timings_waiting_;
  if (free) {
    timing_ = true;
    return Ticket(this, /*timing=*/true);
  }
  changed_.notify_all();  // Compiles that were held back for this one.
  return {};
}

void LaneGate::Leave(bool timing) {
  const std::lock_guard lock(mutex_);
  if (timing) {
    timing_ = false;
  } else {
    --compiling_;
  }
  changed_.notify_all();
}

}  // namespace fettle
