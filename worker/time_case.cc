// SPDX-License-Identifier: Apache-2.0
#include "worker/time_case.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "judge/accept.h"
#include "judge/statistics.h"
#include "profiler/duty.h"
#include "profiler/timing.h"
#include "verifier/inputs.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kCpuRotationCap = std::int64_t{256} << 20;
// A processor makes the sets of a screening for longer than it uses them.
constexpr std::int64_t kCpuScreenRotation = std::int64_t{8} << 20;
constexpr std::uint64_t kSecondSet = 0x9E3779B97F4A7C15ULL;  // Of the other input set's seed.
constexpr int kScreenBlocks = 4;
constexpr int kScreenPairs = 3;
// On a GPU, whose blocks differ by some 0.1 %, two that are this slow leave nothing to find out.
constexpr std::size_t kHopelessBlocks = 2;
constexpr double kHopelessRatio = 0.85;

std::int64_t RotationBytes(const TimeRequest& request, const Target& target) {
  if (request.rotation_bytes > 0) return request.rotation_bytes;
  const std::int64_t twice = 2 * target.cache;
  if (target.vendor != Vendor::kCpu) return twice;
  return std::min(twice > 0 ? twice : kCpuRotationCap,
                  request.screen_only ? kCpuScreenRotation : kCpuRotationCap);
}

TimingOptions OptionsFor(const TimeRequest& request, Vendor vendor) {
  TimingOptions options;
  options.order_seed = request.order_seed;
  options.time_cap = request.time_cap;
  options.launch_limit = request.launch_limit;
  options.device_cap = request.device_cap;
  if (request.screen_only) {
    options.min_blocks = options.max_blocks = kScreenBlocks;
    options.pairs_per_block = kScreenPairs;
    options.calibrate = false;  // It decides nothing.
    // A GPU that screens one candidate after another is warm.
    if (vendor == Vendor::kCpu) {
      options.warmup = std::chrono::milliseconds(20);
    } else {
      options.warmup = std::chrono::milliseconds(2);
      options.shortest_sample = std::chrono::microseconds(60);
      options.read_state = false;
    }
    if (vendor != Vendor::kCpu) {
      options.enough = [](const std::vector<TimingBlock>& blocks) {
        const std::vector<double> ratios = judge::BlockLogRatios(blocks);
        return ratios.size() >= kHopelessBlocks &&
               std::all_of(ratios.begin(), ratios.end(),
                           [](double ratio) { return ratio < std::log(kHopelessRatio); });
      };
    }
    options.min_warmup_launches = 2;
    options.idle = nanoseconds(0);
    return options;
  }
  options.min_blocks = std::max(1, request.min_blocks);
  options.max_blocks = std::max(options.min_blocks, request.max_blocks);
  options.pairs_per_block = std::max(1, request.pairs_per_block);
  options.warmup = nanoseconds(static_cast<std::int64_t>(request.warmup_seconds * 1e9));
  options.shortest_sample = request.shortest_sample;
  options.idle = request.idle;
  options.enough = [least = request.min_blocks,
                    width = request.target_half_width](const std::vector<TimingBlock>& blocks) {
    const std::vector<double> ratios = judge::BlockLogRatios(blocks);
    return ratios.size() >= static_cast<std::size_t>(least) &&
           judge::EnoughBlocks(ratios, width, std::min(least, judge::kMinBlocks));
  };
  return options;
}

double MedianOf(const std::vector<TimingBlock>& blocks, std::vector<double> TimingBlock::*side) {
  std::vector<double> all;
  for (const TimingBlock& block : blocks) {
    if (block.discarded) continue;
    all.insert(all.end(), (block.*side).begin(), (block.*side).end());
  }
  return judge::Median(std::move(all));
}

CaseMeasurement Summarize(const TimeRequest& request, TimingResult timing) {
  CaseMeasurement measurement;
  measurement.case_label = request.bound_case.label;
  measurement.weight = request.bound_case.weight;
  measurement.block_log_ratios = judge::BlockLogRatios(timing.blocks);
  measurement.a_median_ns = MedianOf(timing.blocks, &TimingBlock::a_ns);
  measurement.b_median_ns = MedianOf(timing.blocks, &TimingBlock::b_ns);
  measurement.ratio = std::exp(judge::SummarizeBlocks(measurement.block_log_ratios).mean);
  const judge::Interval interval =
      judge::BootstrapInterval(measurement.block_log_ratios, 0.95, request.order_seed);
  measurement.ratio_low = std::exp(interval.low);
  measurement.ratio_high = std::exp(interval.high);
  measurement.aa_spread = judge::AaSpread(timing.blocks);
  measurement.launches_per_sample = timing.launches_per_sample;
  measurement.discarded_blocks = timing.discarded_blocks;
  measurement.blocks = std::move(timing.blocks);
  return measurement;
}

// What of the case's inputs may be anything its fill draws.
std::vector<VariedTensor> VariedOf(const BoundCase& bound_case) {
  std::vector<VariedTensor> varied;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!CanFlip(tensor) || !tensor.fill.rows.empty()) continue;
    varied.push_back(
        {static_cast<std::int64_t>(i), DrawnFillOf(tensor, /*seed=*/0, InputSet::kDeclared)});
  }
  return varied;
}

absl::StatusOr<std::array<std::shared_ptr<const CaseImages>, 2>> BothInputs(
    const TimeRequest& request, CaseInputCache& cache) {
  std::array<std::shared_ptr<const CaseImages>, 2> inputs;
  for (std::size_t set = 0; set < inputs.size(); ++set) {
    InputSpec spec;
    spec.seed = set == 0 ? request.input_seed : request.input_seed ^ kSecondSet;
    FETTLE_ASSIGN_OR_RETURN(const auto entry, cache.Get(request.bound_case, spec, request.files));
    inputs[set] = entry->images;
  }
  return inputs;
}

}  // namespace

absl::StatusOr<TimeObservation> TimeOneCase(Device& device, Clock& clock, CaseInputCache& cache,
                                            const TimeRequest& request, DeviceModule& a,
                                            DeviceModule& b, std::int64_t memory_bytes,
                                            std::unique_ptr<KeptOutputs>* kept) {
  FETTLE_ASSIGN_OR_RETURN(auto inputs, BothInputs(request, cache));
  CasePairOptions pair_options;
  pair_options.rotation_bytes = RotationBytes(request, device.info().target);
  pair_options.memory_bytes = memory_bytes;
  pair_options.cold = request.cold;
  // A processor's kernels share memory with what times them: there even a screening looks.
  pair_options.checks = (!request.screen_only && request.duty_ratios.empty()) ||
                        device.info().target.vendor == Vendor::kCpu;
  pair_options.seed = request.order_seed;
  if (!request.single_seeds.empty()) {
    pair_options.varied = VariedOf(request.bound_case);
    pair_options.draw = [](const DrawnFill& fill, std::int64_t count, std::uint8_t* bytes) {
      WriteDrawn(fill, 0, count, bytes);
    };
  }
  pair_options.singles = static_cast<int>(request.single_seeds.size());
  pair_options.single = [&](int index) -> absl::StatusOr<std::shared_ptr<const CaseImages>> {
    InputSpec spec;
    spec.seed = request.single_seeds[static_cast<std::size_t>(index)];
    FETTLE_ASSIGN_OR_RETURN(const auto entry, cache.Get(request.bound_case, spec, request.files));
    return entry->images;
  };
  FETTLE_ASSIGN_OR_RETURN(
      const std::unique_ptr<CasePair> pair,
      CasePair::Create(device, request.bound_case, {&a, request.a.symbols, request.a.plan},
                       {&b, request.b.symbols, request.b.plan}, std::move(inputs), pair_options));
  if (!request.duty_ratios.empty()) {
    DutyOptions duty;
    duty.ratios = request.duty_ratios;
    duty.span = request.duty_span;
    duty.launch_limit = request.launch_limit;
    FETTLE_ASSIGN_OR_RETURN(const std::vector<DutyPoint> points,
                            MeasureDuty(device, *pair, duty, clock));
    TimeObservation observation;
    observation.rotated_bytes = pair->rotated_bytes();
    for (const DutyPoint& point : points) {
      observation.device_ns += point.median_ns * static_cast<double>(point.launches);
    }
    observation.duty = ToJson(points);
    return observation;
  }
  FETTLE_ASSIGN_OR_RETURN(
      TimingResult timing,
      MeasureInterleaved(device, *pair, OptionsFor(request, device.info().target.vendor), clock));
  TimeObservation observation;
  observation.calibration_error = timing.calibration_error;
  observation.device_ns = timing.device_ns;
  observation.rotated_bytes = pair->rotated_bytes();
  observation.graphs = timing.graphs;
  observation.measurement = Summarize(request, std::move(timing));
  observation.sampled = pair->sampled().complete();
  observation.judged_single = pair->kept_single();
  if (request.want_outputs) {
    FETTLE_ASSIGN_OR_RETURN(observation.outputs, pair->sampled().FetchAll());
  }
  observation.all_timed_outputs_equal = pair->outputs_equal();
  observation.modified_input = pair->modified_input();
  observation.guard_violation = pair->guard_violation();
  if (request.keep_outputs && observation.sampled) *kept = pair->TakeSampled();
  observation.outputs_kept = request.keep_outputs && *kept != nullptr;
  return observation;
}

}  // namespace fettle
