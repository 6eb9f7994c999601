// SPDX-License-Identifier: Apache-2.0
#include "profiler/case_pair.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/output_rows.h"
#include "device/tensor_layout.h"

namespace fettle {
namespace {

constexpr std::int64_t kTimingGuardBytes = 4096;  // Small: many slots.
constexpr int kFewestSlots = 3;
constexpr int kMostSlots = 512;
constexpr std::uint8_t kPoison = 0xFF;
constexpr std::chrono::seconds kDigestLimit{60};
// Above this a slot's inputs are written once, because rewriting them would dominate the time.
constexpr std::int64_t kRewriteBytes = std::int64_t{1} << 30;
// Samples with less to compare are all checked, others one in kCheckOneIn.
constexpr std::int64_t kAlwaysCheckBytes = std::int64_t{1} << 20;
constexpr std::uint64_t kCheckOneIn = 10;

void ShiftWorkspace(BoundArg& arg, std::int64_t by) {
  if (arg.kind == BoundArg::Kind::kWorkspace) arg.index += by;
  for (auto& [offset, field] : arg.fields) ShiftWorkspace(field, by);
}

// The plan over a workspace list in which its own buffers start at `by`.
BoundPlan ShiftPlan(BoundPlan plan, std::int64_t by) {
  for (BoundStep& step : plan.steps) {
    for (BoundArg& arg : step.args) ShiftWorkspace(arg, by);
    ShiftWorkspace(step.target, by);
    ShiftWorkspace(step.source, by);
  }
  plan.workspace.insert(plan.workspace.begin(), static_cast<std::size_t>(by), BoundWorkspace{});
  return plan;
}

}  // namespace

absl::Status KeptOutputs::Keep(CaseBuffers& buffers) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    if (!IsOutput(case_.tensors[i]) || case_.tensors[i].is_null) continue;
    GuardedBuffer& from = *buffers.tensor(static_cast<std::int64_t>(i));
    if (at == outputs_.size()) {
      FETTLE_ASSIGN_OR_RETURN(outputs_.emplace_back(), device_.Allocate(from.size_bytes()));
    }
    FETTLE_RETURN_IF_ERROR(
        device_.CopyDevice(*outputs_[at++], 0, from.buffer(), from.offset(), from.size_bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> KeptOutputs::Fetch(
    const std::vector<std::vector<std::int64_t>>& rows) const {
  std::vector<std::vector<std::uint8_t>> fetched;
  if (outputs_.empty()) return absl::FailedPreconditionError("no sample left outputs to fetch");
  if (rows.size() != outputs_.size()) return absl::InvalidArgumentError("rows of other outputs");
  for (const BoundTensor& tensor : case_.tensors) {
    if (!IsOutput(tensor) || tensor.is_null) continue;
    const std::size_t at = fetched.size();
    FETTLE_ASSIGN_OR_RETURN(fetched.emplace_back(),
                            ReadRows(device_, tensor, *outputs_[at], 0, rows[at]));
  }
  return fetched;
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> KeptOutputs::FetchAll() const {
  if (outputs_.empty()) return std::vector<std::vector<std::uint8_t>>();
  return Fetch(std::vector<std::vector<std::int64_t>>(outputs_.size()));
}

absl::StatusOr<std::unique_ptr<CasePair>> CasePair::Create(
    Device& device, const BoundCase& bound_case, PairSide a, PairSide b,
    std::array<std::shared_ptr<const CaseImages>, 2> inputs, const CasePairOptions& options) {
  std::unique_ptr<CasePair> pair(new CasePair(device, bound_case));
  pair->inputs_ = std::move(inputs);
  pair->random_.seed(options.seed);
  pair->digest_key_ = pair->random_();
  pair->sampled_ = std::make_unique<KeptOutputs>(device, bound_case);
  for (const BoundTensor& tensor : bound_case.tensors) {
    pair->resets_ = pair->resets_ || tensor.role == Role::kInOut;
    pair->check_bytes_ += tensor.is_null ? 0 : DenseBytes(tensor);
  }
  pair->checks_ = options.checks;
  pair->rewrites_ = options.checks && pair->check_bytes_ <= kRewriteBytes;
  pair->workspace_ = a.plan.workspace;
  pair->workspace_.insert(pair->workspace_.end(), b.plan.workspace.begin(), b.plan.workspace.end());
  for (const BoundWorkspace& workspace : pair->workspace_) {
    pair->resets_ = pair->resets_ || (workspace.count > 0 && !workspace.zero);
  }
  pair->b_module_ = b.module;
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t state_bytes, b.module->SaveState());
  pair->b_keeps_state_ = state_bytes > 0;
  b.plan = ShiftPlan(std::move(b.plan), static_cast<std::int64_t>(a.plan.workspace.size()));
  FETTLE_RETURN_IF_ERROR(pair->MakeSlots(a, b, options));
  return pair;
}

absl::Status CasePair::MakeSlots(const PairSide& a, const PairSide& b,
                                 const CasePairOptions& options) {
  GuardOptions guards;
  guards.guard_bytes = kTimingGuardBytes;
  guards.key = random_();
  if (device_.info().target.vendor != Vendor::kCpu) {
    patterns_ = std::make_unique<GuardPatterns>(device_, guards.key);
    guards.patterns = patterns_.get();
  }
  int wanted = 1;
  for (int made = 0; made < wanted; ++made) {
    Slot slot;
    absl::StatusOr<CaseBuffers> buffers = CaseBuffers::Allocate(device_, case_, workspace_, guards);
    // Fewer slots are better than none where the memory is short.
    if (absl::IsResourceExhausted(buffers.status()) && made >= kFewestSlots) break;
    FETTLE_RETURN_IF_ERROR(buffers.status());
    slot.buffers = std::make_unique<CaseBuffers>(*std::move(buffers));
    const std::int64_t bytes = std::max<std::int64_t>(slot.buffers->size_bytes(), 1);
    if (made == 0 && options.cold) {
      const std::int64_t rotate = (options.rotation_bytes + bytes - 1) / bytes;
      const std::int64_t fit = options.memory_bytes > 0 ? options.memory_bytes / bytes : kMostSlots;
      wanted = static_cast<int>(
          std::clamp<std::int64_t>(std::min(rotate, fit), kFewestSlots, kMostSlots));
    }
    rotated_bytes_ += bytes;
    FETTLE_ASSIGN_OR_RETURN(
        slot.a, PreparedCall::Create(device_, *a.module, a.symbols, a.plan, *slot.buffers));
    FETTLE_ASSIGN_OR_RETURN(
        slot.b, PreparedCall::Create(device_, *b.module, b.symbols, b.plan, *slot.buffers));
    slot.input_set = static_cast<std::size_t>(made % 2);
    // Before any kernel ran; of both sets, since one slot takes turns with them.
    for (std::size_t set = 0; made == 0 && set < inputs_.size(); ++set) {
      FETTLE_RETURN_IF_ERROR(slot.buffers->WriteInputs(inputs_[set]));
      FETTLE_ASSIGN_OR_RETURN(CaseDigests digests,
                              slot.buffers->Digests({.inputs = true}, digest_key_, kDigestLimit));
      input_digests_[set] = std::move(digests.inputs);
    }
    FETTLE_RETURN_IF_ERROR(slot.buffers->WriteInputs(inputs_[slot.input_set]));
    FETTLE_RETURN_IF_ERROR(slot.buffers->FillWorkspace(kPoison));
    slots_.push_back(std::move(slot));
  }
  for (Slot& slot : slots_) FETTLE_RETURN_IF_ERROR(slot.buffers->FillOutputs(kPoison));
  return absl::OkStatus();
}

absl::Status CasePair::Enqueue(Side side, int slot) {
  Slot& used = slots_[static_cast<std::size_t>(slot)];
  bool& called = called_[side == Side::kA ? 0 : 1];
  if (b_keeps_state_ && called) FETTLE_RETURN_IF_ERROR(b_module_->RestoreState());
  called = true;
  return (side == Side::kA ? used.a : used.b)->Enqueue();
}

absl::Status CasePair::Reset(Slot& slot) {
  if (!checks_) return slot.buffers->Restore();
  FETTLE_RETURN_IF_ERROR(slot.buffers->FillOutputs(kPoison));
  if (!workspace_.empty()) FETTLE_RETURN_IF_ERROR(slot.buffers->FillWorkspace(kPoison));
  if (!rewrites_) return slot.buffers->Restore();
  slot.input_set = random_() & 1;
  return slot.buffers->WriteInputs(inputs_[slot.input_set]);
}

absl::Status CasePair::Check(Slot& slot) {
  ++checked_;
  FETTLE_ASSIGN_OR_RETURN(
      const CaseDigests seen,
      slot.buffers->Digests(
          {.inputs = !modified_input_, .outputs = true, .guards = !guard_violation_}, digest_key_,
          kDigestLimit));
  std::vector<std::string>& expected = expected_[slot.input_set];
  if (expected.empty()) {
    expected = seen.outputs;
  } else if (case_.deterministic && expected != seen.outputs) {
    outputs_equal_ = false;
  }
  // Each checked sample of the first set is as likely as any other to be the one that is returned.
  if (slot.input_set == 0 && random_() % static_cast<std::uint64_t>(++sampled_from_) == 0) {
    FETTLE_RETURN_IF_ERROR(sampled_->Keep(*slot.buffers));
  }
  const std::vector<std::string>& before = input_digests_[slot.input_set];
  for (std::size_t i = 0; i < seen.inputs.size() && !modified_input_; ++i) {
    if (seen.inputs[i] != before[i]) modified_input_ = case_.tensors[i].name;
  }
  if (!guard_violation_) guard_violation_ = seen.guard_violation;
  return absl::OkStatus();
}

absl::Status CasePair::AfterSample(Side side, int first, int count, bool warmup) {
  const int used = std::min(count, slots());
  const auto slot_at = [&](int i) -> Slot& {
    return slots_[static_cast<std::size_t>((first + i) % slots())];
  };
  if (side == Side::kB && !warmup && checks_) {
    // Prefers a slot of the first input set while none has been seen.
    int chosen = static_cast<int>(random_() % static_cast<std::uint64_t>(used));
    for (int i = 0; i < used && sampled_->empty(); ++i) {
      if (slot_at(i).input_set == 0) chosen = i;
    }
    const bool first_of_set = expected_[slot_at(chosen).input_set].empty();
    if (check_bytes_ <= kAlwaysCheckBytes || first_of_set || random_() % kCheckOneIn == 0) {
      FETTLE_RETURN_IF_ERROR(Check(slot_at(chosen)));
    }
  }
  for (int i = 0; i < used; ++i) FETTLE_RETURN_IF_ERROR(Reset(slot_at(i)));
  bool& called = called_[side == Side::kA ? 0 : 1];
  if (b_keeps_state_ && side == Side::kB && called) {
    FETTLE_RETURN_IF_ERROR(b_module_->RestoreState());
  }
  called = false;
  return absl::OkStatus();
}

}  // namespace fettle
