// SPDX-License-Identifier: Apache-2.0
#include "profiler/timing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kCalibrationSpin{100'000};
// Covers the host's time to enqueue a sample, so that the device never waits for it.
constexpr nanoseconds kLeadSpin{30'000};
constexpr double kLowestClockFraction = 0.75;  // Below this share of the best clock seen.
constexpr int kMaxLaunchesPerSample = 2000;
constexpr int kFewestPairs = 2;
constexpr int kMostLastSamples = 64;

std::size_t Index(Side side) { return side == Side::kA ? 0 : 1; }

// One measurement in progress.
class Timer {
 public:
  Timer(Device& device, TimedPair& pair, const TimingOptions& options, Clock& clock,
        const SleepFor& sleep)
      : device_(device),
        pair_(pair),
        options_(options),
        clock_(clock),
        sleep_(sleep),
        random_(options.order_seed) {}

  absl::StatusOr<TimingResult> Run();

 private:
  nanoseconds Since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<nanoseconds>(clock_.Steady() - start);
  }
  bool on_cpu() const { return device_.info().target.vendor == Vendor::kCpu; }

  DeviceState State() { return options_.read_state ? device_.State() : DeviceState(); }
  // How long the next sample may take.
  absl::StatusOr<nanoseconds> SampleLimit() const;
  absl::StatusOr<double> Sample(Side side, bool warmup);
  absl::StatusOr<double> RunGroup(Side side, int group, bool warmup);
  absl::Status SeeWhatIsWanted();
  absl::Status EnqueueSample(Side side, int group);
  absl::StatusOr<DeviceGraph*> Graph(Side side, int group);
  absl::StatusOr<double> WarmUp(Side side);
  absl::Status ChooseLaunches(double fastest_ns);
  absl::Status TryGraphs();
  std::vector<bool> Order(int pairs);
  absl::StatusOr<TimingBlock> Block(int pairs);
  void JudgeState(const DeviceState& before, const DeviceState& after, TimingBlock& block);
  int PairsFor(nanoseconds left) const;

  Device& device_;
  TimedPair& pair_;
  const TimingOptions& options_;
  Clock& clock_;
  const SleepFor& sleep_;
  std::mt19937_64 random_;

  int launches_ = 1;
  int next_group_ = 0;
  bool graphs_ = false;
  bool clocks_disagree_ = false;
  std::optional<DeviceState> last_state_;  // At the end of the last block.
  double best_clock_mhz_ = 0;
  double pair_wall_ns_ = 0;  // Of the last block, checks included.
  double device_ns_ = 0;
  std::map<std::pair<std::size_t, int>, std::unique_ptr<DeviceGraph>> captured_;
};

absl::StatusOr<DeviceGraph*> Timer::Graph(Side side, int group) {
  std::unique_ptr<DeviceGraph>& graph = captured_[{Index(side), group}];
  if (graph != nullptr) return graph.get();
  absl::Status begun = device_.BeginCapture();
  if (absl::IsUnimplemented(begun)) return nullptr;
  FETTLE_RETURN_IF_ERROR(begun);
  absl::Status enqueued;
  for (int i = 0; i < launches_ && enqueued.ok(); ++i) {
    enqueued = pair_.Enqueue(side, (group * launches_ + i) % pair_.slots());
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> ended = device_.EndCapture();
  FETTLE_RETURN_IF_ERROR(enqueued);
  FETTLE_RETURN_IF_ERROR(ended.status());
  graph = *std::move(ended);
  return graph.get();
}

absl::Status Timer::EnqueueSample(Side side, int group) {
  if (graphs_) {
    FETTLE_ASSIGN_OR_RETURN(DeviceGraph * graph, Graph(side, group));
    return device_.Replay(*graph);
  }
  for (int i = 0; i < launches_; ++i) {
    FETTLE_RETURN_IF_ERROR(pair_.Enqueue(side, (group * launches_ + i) % pair_.slots()));
  }
  return absl::OkStatus();
}

absl::StatusOr<nanoseconds> Timer::SampleLimit() const {
  if (options_.device_cap.count() == 0) return options_.launch_limit;
  const nanoseconds left = options_.device_cap - nanoseconds(std::llround(device_ns_));
  if (left.count() > 0) return std::min(options_.launch_limit, left);
  return absl::DeadlineExceededError(
      fmt::format("the samples took the {} ns of device time that they may", device_ns_));
}

// Nanoseconds per launch of one sample that counts. Others are run for side b, which has them
// checked; side a passes them over where there are more groups.
absl::StatusOr<double> Timer::Sample(Side side, bool warmup) {
  const int groups = std::max(1, pair_.slots() / launches_);
  for (int passed = 1;; ++passed) {
    const int wanted = side == Side::kB && !warmup ? pair_.Wanted(launches_, /*last=*/false) : -1;
    const int group = wanted >= 0 ? wanted / launches_ % groups : next_group_++ % groups;
    const bool counts = warmup || pair_.Counts(group * launches_ % pair_.slots(), launches_);
    if (!counts && side == Side::kA && passed < groups) continue;
    FETTLE_ASSIGN_OR_RETURN(const double ns, RunGroup(side, group, warmup));
    if (counts) return ns;
  }
}

absl::StatusOr<double> Timer::RunGroup(Side side, int group, bool warmup) {
  FETTLE_ASSIGN_OR_RETURN(const nanoseconds limit, SampleLimit());
  if (graphs_) FETTLE_RETURN_IF_ERROR(Graph(side, group).status());  // Captured before the clock.
  const auto wall_start = clock_.Steady();
  if (!on_cpu()) FETTLE_RETURN_IF_ERROR(device_.Spin(kLeadSpin));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> start, device_.Record());
  FETTLE_RETURN_IF_ERROR(EnqueueSample(side, group));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> end, device_.Record());
  FETTLE_RETURN_IF_ERROR(device_.Synchronize(limit));
  const auto wall_ns = static_cast<double>(Since(wall_start).count());
  FETTLE_ASSIGN_OR_RETURN(const double elapsed_ns, device_.ElapsedNs(*start, *end));
  // No device can have worked for longer than the host waited for it.
  if (!(elapsed_ns > 0) || elapsed_ns > wall_ns * 1.01 + 2000) clocks_disagree_ = true;
  device_ns_ += elapsed_ns;
  FETTLE_RETURN_IF_ERROR(
      pair_.AfterSample(side, group * launches_ % pair_.slots(), launches_, warmup));
  return elapsed_ns / launches_;
}

// Short measurements can end before a slot's turn has come.
absl::Status Timer::SeeWhatIsWanted() {
  const int groups = std::max(1, pair_.slots() / launches_);
  for (int i = 0; i < kMostLastSamples; ++i) {
    const int wanted = pair_.Wanted(launches_, /*last=*/true);
    if (wanted < 0) break;
    const int group = wanted / launches_ % groups;
    FETTLE_RETURN_IF_ERROR(RunGroup(Side::kB, group, /*warmup=*/false).status());
  }
  return absl::OkStatus();
}

// Returns the fastest launch seen.
absl::StatusOr<double> Timer::WarmUp(Side side) {
  const auto start = clock_.Steady();
  double fastest = 0;
  for (int i = 0;; ++i) {
    const nanoseconds spent = Since(start);
    const bool launched = i >= options_.min_warmup_launches || spent > 4 * options_.warmup;
    if (i > 0 && launched && spent >= options_.warmup) break;
    FETTLE_ASSIGN_OR_RETURN(const double ns, Sample(side, /*warmup=*/true));
    fastest = i == 0 ? ns : std::min(fastest, ns);
  }
  return fastest;
}

absl::Status Timer::TryGraphs() {
  for (const Side side : {Side::kA, Side::kB}) {
    FETTLE_ASSIGN_OR_RETURN(DeviceGraph * graph, Graph(side, 0));
    if (graph == nullptr) {
      captured_.clear();  // For both sides or for neither.
      return absl::OkStatus();
    }
  }
  graphs_ = true;
  return absl::OkStatus();
}

absl::Status Timer::ChooseLaunches(double fastest_ns) {
  const double wanted =
      std::ceil(static_cast<double>(options_.shortest_sample.count()) / std::max(fastest_ns, 1.0));
  launches_ = static_cast<int>(std::clamp(wanted, 1.0, double{kMaxLaunchesPerSample}));
  if (pair_.resets_between_calls()) launches_ = std::min(launches_, pair_.slots());
  return launches_ > 1 ? TryGraphs() : absl::OkStatus();
}

// Which side goes first in each pair: as many of one as of the other, in random order.
std::vector<bool> Timer::Order(int pairs) {
  std::vector<bool> a_first(static_cast<std::size_t>(pairs));
  const bool odd_one = (random_() & 1) != 0;
  for (int i = 0; i < pairs; ++i) a_first[static_cast<std::size_t>(i)] = (i % 2 == 0) == odd_one;
  for (std::size_t i = a_first.size(); i > 1; --i) {
    const std::size_t j = random_() % i;
    const bool kept = a_first[i - 1];
    a_first[i - 1] = a_first[j];
    a_first[j] = kept;
  }
  return a_first;
}

void Timer::JudgeState(const DeviceState& before, const DeviceState& after, TimingBlock& block) {
  block.clock_mhz = after.clock_mhz;
  block.power_w = after.power_w;
  block.temperature_c = after.temperature_c;
  const double clock = std::min(before.clock_mhz, after.clock_mhz);
  best_clock_mhz_ = std::max({best_clock_mhz_, before.clock_mhz, after.clock_mhz});
  if (before.throttled || after.throttled) {
    const std::string& why =
        after.throttle_reason.empty() ? before.throttle_reason : after.throttle_reason;
    block.discard_reason = why.empty() ? "throttled" : fmt::format("throttled: {}", why);
  } else if (after.clock_mhz > 0 && clock < kLowestClockFraction * best_clock_mhz_) {
    block.discard_reason =
        fmt::format("clock {:.0f} MHz is below 75 % of {:.0f} MHz", clock, best_clock_mhz_);
  } else if (clocks_disagree_) {
    block.discard_reason = "device and host clocks disagree";
  }
  block.discarded = !block.discard_reason.empty();
}

absl::StatusOr<TimingBlock> Timer::Block(int pairs) {
  TimingBlock block;
  clocks_disagree_ = false;
  // Little happens between blocks but a rest: the last block's end will do.
  const DeviceState before = last_state_ ? *last_state_ : State();
  const auto start = clock_.Steady();
  const std::vector<bool> order = Order(pairs + 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Side first = order[i] ? Side::kA : Side::kB;
    const Side second = order[i] ? Side::kB : Side::kA;
    FETTLE_ASSIGN_OR_RETURN(const double first_ns, Sample(first, /*warmup=*/i == 0));
    FETTLE_ASSIGN_OR_RETURN(const double second_ns, Sample(second, /*warmup=*/i == 0));
    if (i == 0) continue;  // The first pair of a block still warms up.
    block.a_ns.push_back(order[i] ? first_ns : second_ns);
    block.b_ns.push_back(order[i] ? second_ns : first_ns);
  }
  pair_wall_ns_ = static_cast<double>(Since(start).count()) / static_cast<double>(order.size());
  last_state_ = State();
  JudgeState(before, *last_state_, block);
  return block;
}

// Kept pairs per block so that min_blocks blocks fit into `left`.
int Timer::PairsFor(nanoseconds left) const {
  const double per_block = std::min(static_cast<double>(left.count()) / options_.min_blocks,
                                    static_cast<double>(options_.block_span.count()));
  const double fit = per_block / std::max(pair_wall_ns_, 1.0) - 1;
  return static_cast<int>(std::clamp(fit, double{kFewestPairs},
                                     double(std::max(options_.pairs_per_block, kFewestPairs))));
}

absl::StatusOr<TimingResult> Timer::Run() {
  TimingResult result;
  if (options_.calibrate) {
    FETTLE_ASSIGN_OR_RETURN(result.calibration_error,
                            CalibrationError(device_, options_.launch_limit));
  }
  FETTLE_RETURN_IF_ERROR(device_.ResetPersistingCache());
  const auto start = clock_.Steady();
  FETTLE_ASSIGN_OR_RETURN(const double a_ns, WarmUp(Side::kA));
  FETTLE_ASSIGN_OR_RETURN(const double b_ns, WarmUp(Side::kB));
  FETTLE_RETURN_IF_ERROR(ChooseLaunches(std::min(a_ns, b_ns)));
  const auto pilot_start = clock_.Steady();
  for (const Side side : {Side::kA, Side::kB}) {
    FETTLE_RETURN_IF_ERROR(Sample(side, /*warmup=*/true).status());
  }
  pair_wall_ns_ = static_cast<double>(Since(pilot_start).count());
  const int pairs = PairsFor(options_.time_cap - Since(start));
  // Discarded blocks may be repeated, half as many again.
  const int most = options_.max_blocks + options_.max_blocks / 2;
  int kept = 0;
  for (int i = 0; i < most && kept < options_.max_blocks; ++i) {
    const auto next_ns = static_cast<std::int64_t>(pair_wall_ns_ * (pairs + 1));
    if (i > 0 && Since(start) + nanoseconds(next_ns) > options_.time_cap) {
      result.capped = true;
      break;
    }
    if (i > 0) sleep_(options_.idle);
    FETTLE_ASSIGN_OR_RETURN(TimingBlock block, Block(pairs));
    block.discarded ? ++result.discarded_blocks : ++kept;
    result.blocks.push_back(std::move(block));
    if (options_.enough && options_.enough(result.blocks)) break;
  }
  FETTLE_RETURN_IF_ERROR(SeeWhatIsWanted());
  result.launches_per_sample = launches_;
  result.graphs = graphs_;
  result.device_ns = device_ns_;
  return result;
}

}  // namespace

absl::StatusOr<double> CalibrationError(Device& device, nanoseconds launch_limit) {
  const auto measure = [&](nanoseconds spin) -> absl::StatusOr<double> {
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> start, device.Record());
    FETTLE_RETURN_IF_ERROR(device.Spin(spin));
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> end, device.Record());
    FETTLE_RETURN_IF_ERROR(device.Synchronize(launch_limit));
    return device.ElapsedNs(*start, *end);
  };
  std::vector<double> errors;
  for (int i = 0; i < 5; ++i) {
    FETTLE_ASSIGN_OR_RETURN(const double one, measure(kCalibrationSpin));
    FETTLE_ASSIGN_OR_RETURN(const double three, measure(3 * kCalibrationSpin));
    const auto asked = static_cast<double>(2 * kCalibrationSpin.count());
    errors.push_back(std::abs((three - one) / asked - 1));
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

absl::StatusOr<TimingResult> MeasureInterleaved(Device& device, TimedPair& pair,
                                                const TimingOptions& options, Clock& clock,
                                                const SleepFor& sleep) {
  if (pair.slots() < 1 || options.max_blocks < 1 || options.min_blocks < 1) {
    return absl::InvalidArgumentError("timing needs at least one slot and one block");
  }
  return Timer(device, pair, options, clock, sleep).Run();
}

absl::StatusOr<TimingResult> MeasureInterleaved(Device& device, TimedPair& pair,
                                                const TimingOptions& options, Clock& clock) {
  return MeasureInterleaved(device, pair, options, clock,
                            [](nanoseconds span) { std::this_thread::sleep_for(span); });
}

}  // namespace fettle
