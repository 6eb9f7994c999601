// SPDX-License-Identifier: Apache-2.0
#include "profiler/case_pair.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/status_macros.h"
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

bool IsOutput(const BoundTensor& tensor) {
  return tensor.role == Role::kOut || tensor.role == Role::kInOut;
}
bool IsInput(const BoundTensor& tensor) { return tensor.role != Role::kOut; }
bool IsEmpty(const BoundTensor& tensor) { return tensor.is_null || DenseBytes(tensor) == 0; }

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

absl::StatusOr<std::unique_ptr<CasePair>> CasePair::Create(Device& device,
                                                           const BoundCase& bound_case, PairSide a,
                                                           PairSide b,
                                                           std::array<CaseInputs, 2> inputs,
                                                           const CasePairOptions& options) {
  std::unique_ptr<CasePair> pair(new CasePair(device, bound_case));
  pair->inputs_ = std::move(inputs);
  pair->random_.seed(options.seed);
  pair->digest_key_ = pair->random_();
  for (const CaseInputs& set : pair->inputs_) {
    if (set.size() != bound_case.tensors.size()) {
      return absl::InvalidArgumentError("timing needs inputs for every tensor of the case");
    }
  }
  for (const BoundTensor& tensor : bound_case.tensors) {
    pair->has_inout_ = pair->has_inout_ || tensor.role == Role::kInOut;
    pair->check_bytes_ += tensor.is_null ? 0 : DenseBytes(tensor);
  }
  pair->workspace_ = a.plan.workspace;
  pair->workspace_.insert(pair->workspace_.end(), b.plan.workspace.begin(), b.plan.workspace.end());
  b.plan = ShiftPlan(std::move(b.plan), static_cast<std::int64_t>(a.plan.workspace.size()));
  FETTLE_RETURN_IF_ERROR(pair->MakeSlots(a, b, options));
  return pair;
}

absl::Status CasePair::WriteInputs(CaseBuffers& buffers, std::size_t input_set) {
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    if (!IsInput(case_.tensors[i]) || IsEmpty(case_.tensors[i])) continue;
    FETTLE_RETURN_IF_ERROR(buffers.WriteInput(static_cast<std::int64_t>(i), inputs_[input_set][i]));
  }
  return absl::OkStatus();
}

absl::Status CasePair::MakeSlots(const PairSide& a, const PairSide& b,
                                 const CasePairOptions& options) {
  GuardOptions guards;
  guards.guard_bytes = kTimingGuardBytes;
  guards.key = random_();
  const auto allocate = [&](const std::vector<BoundWorkspace>& workspace)
      -> absl::StatusOr<std::unique_ptr<CaseBuffers>> {
    FETTLE_ASSIGN_OR_RETURN(CaseBuffers buffers,
                            CaseBuffers::Allocate(device_, case_, workspace, guards));
    return std::make_unique<CaseBuffers>(std::move(buffers));
  };
  if (check_bytes_ <= kRewriteBytes) {
    for (std::size_t set = 0; set < masters_.size(); ++set) {
      FETTLE_ASSIGN_OR_RETURN(masters_[set], allocate({}));
      FETTLE_RETURN_IF_ERROR(WriteInputs(*masters_[set], set));
    }
  }
  int wanted = 1;
  for (int made = 0; made < wanted; ++made) {
    Slot slot;
    absl::StatusOr<std::unique_ptr<CaseBuffers>> buffers = allocate(workspace_);
    // Fewer slots are better than none where the memory is short.
    if (absl::IsResourceExhausted(buffers.status()) && made >= kFewestSlots) break;
    FETTLE_RETURN_IF_ERROR(buffers.status());
    slot.buffers = *std::move(buffers);
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
    FETTLE_RETURN_IF_ERROR(FillSlot(slot));
    // Before any kernel ran.
    if (input_digests_[slot.input_set].empty()) {
      FETTLE_ASSIGN_OR_RETURN(input_digests_[slot.input_set],
                              slot.buffers->DigestInputs(digest_key_, kDigestLimit));
    }
    FETTLE_RETURN_IF_ERROR(slot.buffers->FillWorkspace(kPoison));
    slots_.push_back(std::move(slot));
  }
  for (Slot& slot : slots_) FETTLE_RETURN_IF_ERROR(slot.buffers->FillOutputs(kPoison));
  return absl::OkStatus();
}

absl::Status CasePair::Enqueue(Side side, int slot) {
  Slot& used = slots_[static_cast<std::size_t>(slot)];
  return side == Side::kA ? used.a->Enqueue() : used.b->Enqueue();
}

absl::Status CasePair::Reset(Slot& slot) {
  FETTLE_RETURN_IF_ERROR(slot.buffers->FillOutputs(kPoison));
  if (masters_[0] == nullptr) return slot.buffers->Restore();
  slot.input_set = random_() & 1;
  return CopyInputs(slot);
}

// Writes a new slot's inputs.
absl::Status CasePair::FillSlot(Slot& slot) {
  // Inout tensors are written once from the host, which also keeps what Restore brings back.
  if (masters_[0] == nullptr || has_inout_) return WriteInputs(*slot.buffers, slot.input_set);
  return CopyInputs(slot);
}

absl::Status CasePair::CopyInputs(Slot& slot) {
  CaseBuffers& master = *masters_[slot.input_set];
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (!IsInput(case_.tensors[i]) || IsEmpty(case_.tensors[i])) continue;
    GuardedBuffer& to = *slot.buffers->tensor(index);
    GuardedBuffer& from = *master.tensor(index);
    FETTLE_RETURN_IF_ERROR(device_.CopyDevice(to.buffer(), to.offset(), from.buffer(),
                                              from.offset(), to.size_bytes()));
  }
  return absl::OkStatus();
}

absl::Status CasePair::CheckInputs(Slot& slot) {
  if (modified_input_) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::string> now,
                          slot.buffers->DigestInputs(digest_key_, kDigestLimit));
  const std::vector<std::string>& expected = input_digests_[slot.input_set];
  for (std::size_t i = 0; i < now.size() && !modified_input_; ++i) {
    if (now[i] != expected[i]) modified_input_ = case_.tensors[i].name;
  }
  return absl::OkStatus();
}

absl::Status CasePair::Check(Slot& slot) {
  ++checked_;
  std::vector<std::string> digests;
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    if (!IsOutput(case_.tensors[i]) || case_.tensors[i].is_null) continue;
    // The same poison lies around the rows of every sample's outputs.
    FETTLE_ASSIGN_OR_RETURN(
        digests.emplace_back(),
        slot.buffers->DigestMemory(static_cast<std::int64_t>(i), digest_key_, kDigestLimit));
  }
  std::vector<std::string>& expected = expected_[slot.input_set];
  if (expected.empty()) {
    expected = std::move(digests);
  } else if (case_.deterministic && expected != digests) {
    outputs_equal_ = false;
  }
  // Each checked sample of the first set is as likely as any other to be the one that is returned.
  if (slot.input_set == 0 && random_() % static_cast<std::uint64_t>(++sampled_from_) == 0) {
    sampled_.clear();
    for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
      if (!IsOutput(case_.tensors[i]) || case_.tensors[i].is_null) continue;
      FETTLE_ASSIGN_OR_RETURN(sampled_.emplace_back(),
                              slot.buffers->ReadDense(static_cast<std::int64_t>(i)));
    }
  }
  FETTLE_RETURN_IF_ERROR(CheckInputs(slot));
  if (!guard_violation_) {
    FETTLE_ASSIGN_OR_RETURN(guard_violation_, slot.buffers->CheckGuards());
  }
  return absl::OkStatus();
}

absl::Status CasePair::AfterSample(Side side, int first, int count, bool warmup) {
  const int used = std::min(count, slots());
  const auto slot_at = [&](int i) -> Slot& {
    return slots_[static_cast<std::size_t>((first + i) % slots())];
  };
  if (side == Side::kB && !warmup) {
    // Prefers a slot of the first input set while none has been seen.
    int chosen = static_cast<int>(random_() % static_cast<std::uint64_t>(used));
    for (int i = 0; i < used && sampled_.empty(); ++i) {
      if (slot_at(i).input_set == 0) chosen = i;
    }
    const bool first_of_set = expected_[slot_at(chosen).input_set].empty();
    if (check_bytes_ <= kAlwaysCheckBytes || first_of_set || random_() % kCheckOneIn == 0) {
      FETTLE_RETURN_IF_ERROR(Check(slot_at(chosen)));
    }
  }
  for (int i = 0; i < used; ++i) FETTLE_RETURN_IF_ERROR(Reset(slot_at(i)));
  return absl::OkStatus();
}

}  // namespace fettle
