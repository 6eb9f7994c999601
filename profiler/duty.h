// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a device answers to one kernel at several duty ratios: power, clock and time of a launch when
// it works for a tenth of the time, half of it, all of it. A kernel that is fast in short bursts
// can be slow under a lasting load, once power or heat lowers the clock. Nothing is accepted by it.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "device/device.h"
#include "profiler/timing.h"

namespace fettle {

// One ratio. Readings are taken while the kernel runs, at the end of each burst; of all but the
// first third of the time. 0: the device does not tell.
struct DutyPoint {
  double asked = 0;  // Share of the time in which the kernel shall run; 0: the device at rest.
  double ran = 0;    // In which it did.
  std::int64_t launches = 0;
  double median_ns = 0;                        // Of a launch, over bursts.
  double clock_mhz = 0, lowest_clock_mhz = 0;  // Mean and lowest reading.
  double power_w = 0, highest_power_w = 0;     // Mean and highest reading.
  double temperature_c = 0;                    // The last reading.
  std::string throttle_reason;                 // The last one seen; empty: none.
};

struct DutyOptions {
  std::vector<double> ratios = {0, 0.1, 0.25, 0.5, 0.75, 1};  // In [0, 1]; in this order.
  std::chrono::nanoseconds span{2'000'000'000};               // At each ratio.
  std::chrono::nanoseconds burst{20'000'000};  // About how long the kernel runs at a time.
  std::chrono::nanoseconds launch_limit{10'000'000'000};
};

// Launches side b of `pair` at each ratio in turn, the lightest load first. Errors of the device
// and of `pair`; kInvalidArgument: a ratio outside [0, 1].
absl::StatusOr<std::vector<DutyPoint>> MeasureDuty(Device& device, TimedPair& pair,
                                                   const DutyOptions& options, Clock& clock,
                                                   const SleepFor& sleep);
absl::StatusOr<std::vector<DutyPoint>> MeasureDuty(Device& device, TimedPair& pair,
                                                   const DutyOptions& options, Clock& clock);

nlohmann::json ToJson(const std::vector<DutyPoint>& points);
absl::StatusOr<std::vector<DutyPoint>> DutyPointsFromJson(const nlohmann::json& json);

}  // namespace fettle
