// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a runner process can be asked to do. The worker implements this over its channel to a
// sandboxed fettle-runner (worker/runner_client.h); tests implement it in process over any Device
// (tests/fakes/in_process_runner.h). Seeds for inputs go in; expected data never does.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/bound.h"
#include "core/evidence.h"
#include "device/device.h"

namespace fettle {

// A kernel ready to call for one case: a loaded module and the plan over it.
struct RunnableKernel {
  std::int64_t module = 0;                     // From LoadModule.
  std::map<std::string, std::string> symbols;  // Entry (name expression) -> symbol.
  BoundPlan plan;
};

enum class Placement {
  kGuarded,     // [guard | payload | guard], payload at its natural alignment.
  kPageEnd,     // The payload ends at an unmapped page (guard bytes only where that is impossible).
  kMisaligned,  // Natural alignment of the dtype and no more (contract permitting).
  // As kGuarded, each payload a random multiple of that alignment further than the others: kGuarded
  // and, where sizes are whole pages, kPageEnd have all of a call's payloads lie alike.
  kScattered,
};

// What the inputs hold (verifier/inputs.h). Everything but kDeclared changes only floating-point
// tensors with a kNormal or kUniform fill; index arguments keep their declared fill.
enum class InputSet {
  kDeclared,       // The task's fills.
  kExactIntegers,  // Small integers, so that sums are exact.
  kScaleTiny,
  kScaleSmall,
  kScaleLarge,
  kScaleHuge,  // Declared, times 1e-4, 1e-2, 8, 1e3.
  kRowScales,  // Declared, each row times 2^U(-8, 8).
  kHeavyTail,  // 1 % of the values times 100, and one hot element.
  kAllEqual,
  kAllZero,
  kAllNegative,
  kSorted,
  kReversed,
  kTies,
  kOneHot,
  kCheckerboard,
  kLowRank,
  kOffset,       // Far from zero beside their spread: each row about 64 spreads up or down.
  kEdgeValues,   // Signed zeros, largest, smallest normal, subnormals, 1 +- ulp.
  kLargeValues,  // Some with a square beyond the dtype's largest value, while sums stay within it.
  // Of integers whose fill lets any element have the value of any other, within its range; floats
  // are as declared. Half of them the least and half the largest value; one value; three; sorted.
  kExtremeIntegers,
  kEqualIntegers,
  kFewIntegers,
  kSortedIntegers,
  kNonFinite,  // Declared with a few NaN and infinities (tensors whose contract permits them).
};

// One call of the operator under the protocol of integrity.md 2.5.
struct RunRequest {
  BoundCase bound_case;
  RunnableKernel kernel;
  std::uint64_t input_seed = 0;
  InputSet inputs = InputSet::kDeclared;
  // Contents of the task's files that fills name (Fill::file), by path.
  std::map<std::string, std::string> files;
  // In-place change: after preparing inputs with input_seed, element `flip_element` of tensor
  // `flip_tensor` is replaced (verifier/inputs.h FlipElement); -1: none.
  std::int64_t flip_tensor = -1, flip_element = 0;
  std::uint8_t output_poison = 0xFF;
  std::uint8_t workspace_poison = 0xFF;
  Placement placement = Placement::kGuarded;
  // Keeps the buffers of the previous RunCase (same case shape) and rewrites their contents in
  // place, so that caches keyed on addresses are exposed.
  bool reuse_buffers = false;
  int repeats = 1;           // Identical calls; outputs re-poisoned before each.
  bool want_outputs = true;  // Else only digests come back, and FetchOutputs gives the rest.
  // Outputs come back only when their digests are others than these (of an earlier call in the same
  // session); empty: always.
  std::vector<std::string> known_digests;
  std::chrono::nanoseconds launch_limit = std::chrono::seconds(10);
  // cpu: order in which blocks and threads run: "forward", "reverse", "random".
  std::string schedule = "forward";
};

struct RunObservation {
  // Outputs (out and inout tensors, in case order), dense row-major; empty unless wanted and not
  // known. Of the first repeat.
  std::vector<std::vector<std::uint8_t>> outputs;
  // Of each output as it lies in memory, first repeat; comparable within a session only.
  std::vector<std::string> output_digests;
  bool repeats_equal = true;  // Bitwise, across repeats.
  // Outputs of later repeats that differ from the first, when wanted and the case is declared
  // non-deterministic; at most 4.
  std::vector<std::vector<std::vector<std::uint8_t>>> other_outputs;
  // Bytes that still held poison, per output, where `outputs` is filled; meaningful by comparing
  // two patterns.
  std::vector<std::int64_t> poison_bytes;
  std::optional<std::string> modified_input;   // Name of an input (or untouched row) that changed.
  std::optional<std::string> guard_violation;  // "y: 12 bytes changed from 64 past the end"
  std::optional<std::string>
      padding_violation;               // As guard_violation, between the rows of an output.
  bool at_page_end = false;            // kPageEnd was possible.
  std::vector<CheckFinding> findings;  // cpu check mode.
  double device_ns = 0;
};

// Interleaved timing of two kernels on identical bytes in one process (DESIGN.md 7 "Measure").
struct TimeRequest {
  BoundCase bound_case;
  RunnableKernel a, b;  // a: baseline, b: candidate.
  std::uint64_t input_seed = 0;
  // Of further inputs, each for one launch; the output of one of those is returned, and what counts
  // are samples on inputs that were not there before (profiler/case_pair.h). Empty: outputs are
  // those on input_seed alone, and inputs come again, which costs less time between samples.
  std::vector<std::uint64_t> single_seeds;
  std::map<std::string, std::string> files;  // As in RunRequest.
  std::uint64_t order_seed = 0;              // Order of sides in each pair.
  int min_blocks = 20, max_blocks = 40, pairs_per_block = 10;
  double target_half_width =
      0.005;  // Stop adding blocks when the interval of ln ratio is this narrow.
  double warmup_seconds = 0.2;
  std::chrono::nanoseconds shortest_sample{200'000};  // Shorter kernels are launched several times.
  std::chrono::nanoseconds idle{5'000'000};           // Between blocks.
  std::chrono::nanoseconds time_cap = std::chrono::seconds(20);
  std::int64_t rotation_bytes = 0;  // 0: twice the last-level cache (256 MiB cap on cpu).
  bool cold = true;                 // Rotate buffers; else the same buffers each time.
  bool screen_only = false;         // A few pairs; drops what is clearly slower.
  std::chrono::nanoseconds launch_limit = std::chrono::seconds(10);
  // The samples of both sides may take this much device time in all; 0: no limit.
  std::chrono::nanoseconds device_cap{0};
  bool want_outputs = true;   // Of timed launches of b: one randomly chosen sample's.
  bool keep_outputs = false;  // The same, left on the device for FetchOutputs.
  // Not a comparison: b alone at these duty ratios (profiler/duty.h), for `duty_span` each.
  std::vector<double> duty_ratios;
  std::chrono::nanoseconds duty_span{2'000'000'000};
};

struct TimeObservation {
  CaseMeasurement measurement;  // Blocks, medians, ratio; roofline fields left to the worker.
  double calibration_error = 0;
  double device_ns = 0;
  // As RunObservation, from a timed launch of b on input_seed; behind them those of a launch on
  // single_seeds[judged_single], where there are such seeds. Empty unless sampled.
  std::vector<std::vector<std::uint8_t>> outputs;
  bool sampled = false;  // There was a launch of either kind to take outputs from.
  std::int64_t judged_single = -1;
  bool outputs_kept = false;            // FetchOutputs gives them.
  bool all_timed_outputs_equal = true;  // Every timed output of b had the same bytes.
  std::int64_t rotated_bytes = 0;       // Of all buffer sets that samples took turns on.
  bool graphs = false;                  // Several launches were replayed as one graph.
  std::optional<std::string> modified_input, guard_violation;
  nlohmann::json duty;  // Of duty_ratios: a list of profiler/duty.h's points; else null.
};

// One runner with one device. Not thread-safe. Errors of every call are those of device.h; in
// addition kAborted when the runner process died (the message says by which signal) and kCancelled
// when `stop` was requested. After kAborted or kDeadlineExceeded the session is dead.
class RunnerSession {
 public:
  virtual ~RunnerSession() = default;
  virtual const DeviceInfo& device() const = 0;
  virtual absl::StatusOr<std::int64_t> LoadModule(std::string_view code_object,
                                                  const std::vector<std::string>& symbols) = 0;
  virtual absl::Status UnloadModule(std::int64_t module) = 0;
  virtual absl::StatusOr<RunObservation> RunCase(const RunRequest& request) = 0;
  virtual absl::StatusOr<TimeObservation> TimeCase(const TimeRequest& request) = 0;
  // Outputs that the last RunCase or TimeCase left on the device (of its last repeat; of the chosen
  // samples), as they were when their digests were taken. `rows`, for each output in case order,
  // and once more where there are single_seeds: rows to return, ascending, packed one after
  // another; empty: all of them. kAborted when the
  // memory has changed since, kFailedPrecondition when nothing was left. Only for devices whose
  // memory a kernel cannot reach after its launch, not the cpu's.
  virtual absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>& rows) = 0;
  // A trusted kernel whose answer is known; kAborted when the device is not healthy.
  virtual absl::Status CheckHealth() = 0;
};

}  // namespace fettle
