// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/case_buffers.h"
#include "device/case_images.h"
#include "device/device.h"
#include "device/guard_patterns.h"
#include "device/prepared_call.h"
#include "profiler/timing.h"

namespace fettle {

struct PairSide {
  DeviceModule* module = nullptr;              // Borrowed.
  std::map<std::string, std::string> symbols;  // Entry -> symbol.
  BoundPlan plan;
};

// An input of which any element may have the value of any other.
struct VariedTensor {
  std::int64_t tensor = 0;
  // How its values are drawn, but for the seed; unset where they cannot be.
  std::optional<DrawnFill> fill;
};

struct CasePairOptions {
  std::int64_t rotation_bytes = 0;  // All slots together reach this, within the limits below.
  std::int64_t memory_bytes = 0;    // All slots together stay below this.
  bool cold = true;                 // False: one slot.
  // False: inputs and outputs stay as they are between samples (inout tensors are restored) and
  // nothing is checked; for times from which nothing is accepted.
  bool checks = true;
  std::uint64_t seed = 0;  // Which slots get which inputs, which samples are checked.
  // Inputs that may change from sample to sample; empty: all is as in one of the two sets.
  std::vector<VariedTensor> varied;
  // The first `count` values of a fill, for devices that do not draw; needed with `varied`.
  std::function<void(const DrawnFill& fill, std::int64_t count, std::uint8_t* bytes)> draw;
  // Of a case that RewritesInputs: inputs 0, 1, ... below `singles`, whose results somebody knows,
  // each for one call.
  int singles = 0;
  std::function<absl::StatusOr<std::shared_ptr<const CaseImages>>(int index)> single;
};

// Whether inputs are written anew between samples: those of larger cases take too long.
bool RewritesInputs(const BoundCase& bound_case);

// Outputs of some calls, copied in device memory before the next call. Must not outlive its device.
class KeptOutputs {
 public:
  KeptOutputs(Device& device, const BoundCase& bound_case, std::size_t calls)
      : device_(device), case_(bound_case), outputs_(calls) {}
  // Takes the place of what was kept there before.
  absl::Status Keep(CaseBuffers& buffers, std::size_t call);
  bool has(std::size_t call) const { return !outputs_[call].empty(); }
  bool complete() const;
  // As RunnerSession::FetchOutputs.
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> Fetch(
      const std::vector<std::vector<std::int64_t>>& rows) const;
  // All of them.
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchAll() const;

 private:
  Device& device_;
  BoundCase case_;
  // By call; in case order, as they lie in memory.
  std::vector<std::vector<std::unique_ptr<DeviceBuffer>>> outputs_;
};

// Two kernels over rotated buffer sets. Both sides use the same addresses and bytes. Between
// samples a slot's outputs and workspace are poisoned and its inputs rewritten, so that an output
// that is left over, or remembered by address, shows up as wrong.
//
// Where `varied` allows it, what counts for the time are samples on inputs that were not there
// before: small tensors are drawn anew, larger ones put together from pieces of both sets, so that
// no row is what it was. To look up what was computed for the same inputs, or the same rows of
// them, then finds nothing, wherever it is kept. No two calls of a sample may find the same inputs,
// so that it has no more calls than there are slots. Some samples, drawn at random, run on the
// first set as it is: their outputs are compared, and they do not count. And in some that count,
// rarer as time goes on, one call finds inputs of `single`, which look like any others to it.
// Without `varied`, samples take turns with both sets, and all count. Inputs of more than a GiB are
// written once, and stay.
//
// What side b keeps in variables of its module is brought back before each of its
// calls to what it was before the first: between samples, and for further calls of one sample
// within it. So no call can save itself work that another has done. Side a's further calls wait for
// the same copies, so that both sides carry the same burden and the ratio is only drawn towards
// one. What is checked of a sample of side b: outputs bit-equal to the first of that input set
// (where the contract is deterministic), inputs unchanged, guards intact.
class CasePair final : public TimedPair {
 public:
  // `inputs` holds the case's inputs and a second, different set of the same shapes. `device` and
  // `options.patterns` must outlive the pair.
  static absl::StatusOr<std::unique_ptr<CasePair>> Create(
      Device& device, const BoundCase& bound_case, PairSide a, PairSide b,
      std::array<std::shared_ptr<const CaseImages>, 2> inputs, const CasePairOptions& options);

  int slots() const override { return static_cast<int>(slots_.size()); }
  bool resets_between_calls() const override { return resets_ || varies_; }
  bool Counts(int first, int count) const override;
  int Wanted(int launches, bool last) const override;
  absl::Status Enqueue(Side side, int slot) override;
  absl::Status AfterSample(Side side, int first, int count, bool warmup) override;

  // Bytes that the slots hold together.
  std::int64_t rotated_bytes() const { return rotated_bytes_; }
  // Outputs of one checked sample of b on the first input set, chosen at random, and of one on the
  // inputs kept_single(). TakeSampled gives them away.
  const KeptOutputs& sampled() const { return *sampled_; }
  std::unique_ptr<KeptOutputs> TakeSampled() { return std::move(sampled_); }
  // -1: there was none yet.
  int kept_single() const { return kept_single_; }
  bool outputs_equal() const { return outputs_equal_; }
  const std::optional<std::string>& modified_input() const { return modified_input_; }
  const std::optional<std::string>& guard_violation() const { return guard_violation_; }
  std::int64_t checked_samples() const { return checked_; }

 private:
  enum class Inputs { kFirst = 0, kOther = 1, kVaried, kSingle };
  struct Slot {
    std::unique_ptr<CaseBuffers> buffers;
    std::optional<PreparedCall> a, b;
    Inputs inputs = Inputs::kFirst;
    std::int64_t written_at = 0;  // By ticks_.
    bool repeats() const { return inputs == Inputs::kFirst || inputs == Inputs::kOther; }
  };
  CasePair(Device& device, const BoundCase& bound_case) : device_(device), case_(bound_case) {}
  absl::Status MakeSlots(const PairSide& a, const PairSide& b, const CasePairOptions& options);
  absl::Status PrepareVariation(const CasePairOptions& options);
  bool DrawsAnew(const VariedTensor& varied) const;
  // `index`: of a slot; the same from the start for all slots of a sample.
  Slot& SlotAt(int index) { return slots_[static_cast<std::size_t>(index % slots())]; }
  Inputs DrawInputs();
  absl::Status WriteFirstInputs();
  absl::Status WriteInputs(Slot& slot, Inputs inputs);
  absl::Status Vary(Slot& slot);
  absl::Status DrawAnew(const VariedTensor& varied, GuardedBuffer& to);
  absl::Status PutTogether(const VariedTensor& varied, GuardedBuffer& to);
  absl::Status Reset(Slot& slot, Inputs inputs);
  absl::Status CheckSample(int first, int count);
  absl::Status Check(Slot& slot);
  absl::Status KeepSingle(Slot& slot);
  std::size_t Below(std::size_t count) { return random_() % count; }

  Device& device_;
  BoundCase case_;
  std::array<std::shared_ptr<const CaseImages>, 2> inputs_;
  std::vector<BoundWorkspace> workspace_;    // Of a, then of b.
  std::unique_ptr<GuardPatterns> patterns_;  // Null on the cpu.
  std::vector<Slot> slots_;
  bool varies_ = false;
  std::vector<VariedTensor> varied_;
  std::vector<bool> is_varied_;  // By tensor.
  std::function<void(const DrawnFill&, std::int64_t, std::uint8_t*)> draw_;
  bool device_draws_ = true;               // Until it says otherwise.
  std::unique_ptr<DeviceBuffer> scratch_;  // For values drawn anew.
  std::vector<std::uint8_t> staging_;
  int singles_ = 0, next_single_ = 0, kept_single_ = -1;
  std::function<absl::StatusOr<std::shared_ptr<const CaseImages>>(int)> single_;
  std::int64_t ticks_ = 0;      // Samples of both sides.
  bool single_waits_ = false;   // In some slot.
  std::int64_t samples_ = 0;    // Of side b.
  std::int64_t single_at_ = 1;  // Of samples_: when the next one is due.
  std::mt19937_64 random_;
  bool resets_ = false;  // A call leaves something behind in its slot that another might use.
  DeviceModule* b_module_ = nullptr;
  bool b_keeps_state_ = false;       // In variables of its module.
  std::array<bool, 2> called_ = {};  // By side, in this sample.
  bool checks_ = true;
  bool rewrites_ = true;  // Inputs, between samples.
  std::int64_t rotated_bytes_ = 0;
  std::int64_t check_bytes_ = 0;  // Of one checked slot.

  std::uint64_t digest_key_ = 0;
  std::array<std::vector<std::string>, 2> input_digests_;  // By input set, then tensor.
  std::array<std::vector<std::string>, 2> expected_;       // Digests of outputs, by input set.
  std::unique_ptr<KeptOutputs> sampled_;
  std::size_t sampled_from_ = 0;  // Checked samples of the first set so far.
  bool outputs_equal_ = true;
  std::optional<std::string> modified_input_, guard_violation_;
  std::int64_t checked_ = 0;
};

}  // namespace fettle
