// SPDX-License-Identifier: Apache-2.0
#pragma once

// Interleaved timing of two kernels (docs/measurement.md): randomised pairs in blocks, on rotated
// buffers, with device state around each block. It takes raw samples only; what they mean is the
// judge's business.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "core/evidence.h"
#include "device/device.h"

namespace fettle {

enum class Side { kA, kB };

// The two calls that are timed, over `slots` buffer sets with identical bytes for both sides.
class TimedPair {
 public:
  virtual ~TimedPair() = default;
  virtual int slots() const = 0;
  // Whether a call must find its slot reset, so that one slot serves one call of a sample.
  virtual bool resets_between_calls() const = 0;
  // Whether a sample over these slots, as AfterSample, counts for the time: on some inputs a call
  // could know its answer.
  virtual bool Counts(int /*first*/, int /*count*/) const { return true; }
  // A slot that side b's next sample, of so many launches, is to include; -1: any will do. `last`:
  // nothing else follows, so that what has to be seen must be seen now.
  virtual int Wanted(int /*launches*/, bool /*last*/) const { return -1; }
  // Enqueues one call; stands inside the timed span.
  virtual absl::Status Enqueue(Side side, int slot) = 0;
  // After a sample over slots first, first + 1, ... (modulo slots()), all reached: checks what was
  // computed and brings the slots back to a fresh state. Outside the timed span.
  virtual absl::Status AfterSample(Side side, int first, int count, bool warmup) = 0;
};

struct TimingOptions {
  std::uint64_t order_seed = 0;
  int max_blocks = 40;
  int pairs_per_block = 10;  // Kept ones; each block takes one more first, discarded.
  int min_blocks = 20;       // What `pairs_per_block` is cut for when time is short.
  // A block of slow kernels holds fewer pairs, so that it lasts about so long: a long sample
  // averages over what makes short ones differ.
  std::chrono::nanoseconds block_span{50'000'000};
  std::chrono::nanoseconds warmup{200'000'000};  // Each side, and at least min_warmup_launches.
  int min_warmup_launches = 10;
  bool calibrate = true;   // Else calibration_error stays 0.
  bool read_state = true;  // Clocks, power and throttling around each block; else unknown.
  std::chrono::nanoseconds time_cap{20'000'000'000};
  std::chrono::nanoseconds launch_limit{10'000'000'000};
  // Of all samples in all, kDeadlineExceeded beyond; 0: no limit.
  std::chrono::nanoseconds device_cap{0};
  std::chrono::nanoseconds shortest_sample{200'000};  // Shorter kernels are launched k times.
  std::chrono::nanoseconds idle{5'000'000};           // Between blocks.
  // Asked after each block; true stops.
  std::function<bool(const std::vector<TimingBlock>&)> enough;
};

struct TimingResult {
  std::vector<TimingBlock> blocks;  // Samples are nanoseconds per launch.
  std::int64_t launches_per_sample = 1;
  bool graphs = false;  // The k launches were replayed as one graph, both sides.
  std::int64_t discarded_blocks = 0;
  double calibration_error = 0;  // |measured / requested - 1| of the calibration spin.
  double device_ns = 0;          // Spent in samples, warm-up included.
  bool capped = false;           // The time cap ended it before `enough` did.
};

// |measured / requested - 1| of the difference between a 300 us and a 100 us spin, so that what
// every launch takes beside its work does not count: median of five.
absl::StatusOr<double> CalibrationError(Device& device, std::chrono::nanoseconds launch_limit);

// Errors of the device and of `pair`; the first ends the measurement.
absl::StatusOr<TimingResult> MeasureInterleaved(Device& device, TimedPair& pair,
                                                const TimingOptions& options, Clock& clock);

// Idles between blocks; replaced in tests.
using SleepFor = std::function<void(std::chrono::nanoseconds)>;
absl::StatusOr<TimingResult> MeasureInterleaved(Device& device, TimedPair& pair,
                                                const TimingOptions& options, Clock& clock,
                                                const SleepFor& sleep);

}  // namespace fettle
