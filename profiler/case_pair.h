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
#include "device/device.h"
#include "device/prepared_call.h"
#include "profiler/timing.h"

namespace fettle {

// Dense input bytes of every tensor of a case, in case order (verifier/inputs.h makes them).
using CaseInputs = std::vector<std::vector<std::uint8_t>>;

struct PairSide {
  DeviceModule* module = nullptr;              // Borrowed.
  std::map<std::string, std::string> symbols;  // Entry -> symbol.
  BoundPlan plan;
};

struct CasePairOptions {
  std::int64_t rotation_bytes = 0;  // All slots together reach this, within the limits below.
  std::int64_t memory_bytes = 0;    // All slots together stay below this.
  bool cold = true;                 // False: one slot.
  std::uint64_t seed = 0;           // Which slots get which inputs, which samples are checked.
};

// Two kernels over rotated buffer sets. Both sides use the same addresses and bytes. Between
// samples a slot's outputs are poisoned and its inputs rewritten with one of two input sets, drawn
// at random, so that an output that is left over, or remembered by address, shows up as wrong. Some
// samples of side b are checked: outputs bit-equal to the first of that input set (where the
// contract is deterministic), inputs unchanged, guards intact.
class CasePair final : public TimedPair {
 public:
  // `inputs` holds the case's inputs and a second, different set of the same shapes. `device` must
  // outlive the pair.
  static absl::StatusOr<std::unique_ptr<CasePair>> Create(Device& device,
                                                          const BoundCase& bound_case, PairSide a,
                                                          PairSide b,
                                                          std::array<CaseInputs, 2> inputs,
                                                          const CasePairOptions& options);

  int slots() const override { return static_cast<int>(slots_.size()); }
  bool resets_between_calls() const override { return has_inout_; }
  absl::Status Enqueue(Side side, int slot) override;
  absl::Status AfterSample(Side side, int first, int count, bool warmup) override;

  // Bytes that the slots hold together.
  std::int64_t rotated_bytes() const { return rotated_bytes_; }
  // Dense outputs of one checked sample of b on the first input set, chosen at random; empty before
  // there was one.
  const std::vector<std::vector<std::uint8_t>>& sampled_outputs() const { return sampled_; }
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
  absl::Status WriteInputs(CaseBuffers& buffers, std::size_t input_set);
  absl::Status Reset(Slot& slot);
  absl::Status Check(Slot& slot);
  absl::Status CheckInputs(Slot& slot);
  absl::Status FillSlot(Slot& slot);
  absl::Status CopyInputs(Slot& slot);

  Device& device_;
  BoundCase case_;
  std::array<CaseInputs, 2> inputs_;
  std::vector<BoundWorkspace> workspace_;                // Of a, then of b.
  std::array<std::unique_ptr<CaseBuffers>, 2> masters_;  // Null where inputs are not rewritten.
  std::vector<Slot> slots_;
  std::mt19937_64 random_;
  bool has_inout_ = false;
  std::int64_t rotated_bytes_ = 0;
  std::int64_t check_bytes_ = 0;  // Of one checked slot.

  std::uint64_t digest_key_ = 0;
  std::array<std::vector<std::string>, 2> input_digests_;  // By input set, then tensor.
  std::array<std::vector<std::string>, 2> expected_;       // Digests of outputs, by input set.
  std::vector<std::vector<std::uint8_t>> sampled_;
  std::int64_t sampled_from_ = 0;  // Checked samples of the first set so far.
  bool outputs_equal_ = true;
  std::optional<std::string> modified_input_, guard_violation_;
  std::int64_t checked_ = 0;
};

}  // namespace fettle
