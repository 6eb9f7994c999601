// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "profiler/counters.h"
#include "worker/replay.h"

namespace fettle {

struct CountOptions {
  std::string runner_path;
  std::string device_id;
  Vendor vendor = Vendor::kNvidia;
  std::string
      profiler;  // Empty: FETTLE_NCU or FETTLE_ROCPROFV3, PATH, then where CUDA and ROCm put it.
  std::chrono::seconds limit{120};  // For all passes together.
};

// Makes the call once more under the vendor's profiler, in a process of its own and outside the
// sandbox, which no profiler works in. Best effort: whatever goes wrong is in `absent` or
// `missing`.
CounterReport CountKernel(const Replay& replay, const CountOptions& options, std::stop_token stop);

}  // namespace fettle
