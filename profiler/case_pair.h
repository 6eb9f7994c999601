// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
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

struct CasePairOptions {
  std::int64_t rotation_bytes = 0;  // All slots together reach this, within the limits below.
  std::int64_t memory_bytes = 0;    // All slots together stay below this.
  bool cold = true;                 // False: one slot.
  // False: inputs and outputs stay as they are between samples (inout tensors are restored) and
  // nothing is checked; for times from which nothing is accepted.
  bool checks = true;
  std::uint64_t seed = 0;  // Which slots get which inputs, which samples are checked.
};

// Outputs of one call, copied in device memory before the next call. Must not outlive its device.
class KeptOutputs {
 public:
  KeptOutputs(Device& device, const BoundCase& bound_case) : device_(device), case_(bound_case) {}
  // Takes the place of what was kept before.
  absl::Status Keep(CaseBuffers& buffers);
  bool empty() const { return outputs_.empty(); }
  // As RunnerSession::FetchOutputs.
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> Fetch(
      const std::vector<std::vector<std::int64_t>>& rows) const;
  // All of them.
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchAll() const;

 private:
  Device& device_;
  BoundCase case_;
  std::vector<std::unique_ptr<DeviceBuffer>> outputs_;  // In case order, as they lie in memory.
};

// Two kernels over rotated buffer sets. Both sides use the same addresses and bytes. Between
// samples a slot's outputs and workspace are poisoned and its inputs rewritten with one of two
// input sets, drawn at random, so that an output that is left over, or remembered by address, shows
// up as wrong. What side b keeps in variables of its module is brought back before each of its
// calls to what it was before the first: between samples, and for further calls of one sample
// within it. So no call can save itself work that another has done. Side a's further calls wait for
// the same copies, so that both sides carry the same burden and the ratio is only drawn towards
// one. Some samples of
// side b are checked: outputs bit-equal to the first of that input set (where the contract is
// deterministic), inputs unchanged, guards intact.
class CasePair final : public TimedPair {
 public:
  // `inputs` holds the case's inputs and a second, different set of the same shapes. `device` and
  // `options.patterns` must outlive the pair.
  static absl::StatusOr<std::unique_ptr<CasePair>> Create(
      Device& device, const BoundCase& bound_case, PairSide a, PairSide b,
      std::array<std::shared_ptr<const CaseImages>, 2> inputs, const CasePairOptions& options);

  int slots() const override { return static_cast<int>(slots_.size()); }
  bool resets_between_calls() const override { return resets_; }
  absl::Status Enqueue(Side side, int slot) override;
  absl::Status AfterSample(Side side, int first, int count, bool warmup) override;

  // Bytes that the slots hold together.
  std::int64_t rotated_bytes() const { return rotated_bytes_; }
  // Outputs of one checked sample of b on the first input set, chosen at random; empty before there
  // was one. TakeSampled gives them away.
  const KeptOutputs& sampled() const { return *sampled_; }
  std::unique_ptr<KeptOutputs> TakeSampled() { return std::move(sampled_); }
  bool outputs_equal() const { return outputs_equal_; }
  const std::optional<std::string>& modified_input() const { return modified_input_; }
  const std::optional<std::string>& guard_violation() const { return guard_violation_; }
  std::int64_t checked_samples() const { return checked_; }

 private:
  struct Slot {
    std::unique_ptr<CaseBuffers> buffers;
    std::optional<PreparedCall> a, b;
    std::size_t input_set = 0;
  };
  CasePair(Device& device, const BoundCase& bound_case) : device_(device), case_(bound_case) {}
  absl::Status MakeSlots(const PairSide& a, const PairSide& b, const CasePairOptions& options);
  absl::Status Reset(Slot& slot);
  absl::Status Check(Slot& slot);

  Device& device_;
  BoundCase case_;
  std::array<std::shared_ptr<const CaseImages>, 2> inputs_;
  std::vector<BoundWorkspace> workspace_;    // Of a, then of b.
  std::unique_ptr<GuardPatterns> patterns_;  // Null on the cpu.
  std::vector<Slot> slots_;
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
  std::int64_t sampled_from_ = 0;  // Checked samples of the first set so far.
  bool outputs_equal_ = true;
  std::optional<std::string> modified_input_, guard_violation_;
  std::int64_t checked_ = 0;
};

}  // namespace fettle
