// SPDX-License-Identifier: Apache-2.0
#include "profiler/case_pair.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/output_rows.h"
#include "device/tensor_layout.h"

namespace fettle {
namespace {

constexpr std::int64_t kTimingGuardBytes = 4096;  // Small: many slots.
constexpr int kFewestSlots = 3;
constexpr int kMostSlots = 512;
// A GPU's short kernels need many calls for a sample that is long enough, each with its own inputs.
constexpr std::int64_t kSlotsOfSample = 32;
constexpr std::int64_t kSampleBytes = std::int64_t{1} << 30;
constexpr std::uint8_t kPoison = 0xFF;
constexpr std::chrono::seconds kDigestLimit{60};
// Above this a slot's inputs are written once, because rewriting them would dominate the time.
constexpr std::int64_t kRewriteBytes = std::int64_t{1} << 30;
// Samples with less to compare are all checked, others one in kCheckOneIn.
constexpr std::int64_t kAlwaysCheckBytes = std::int64_t{1} << 20;
constexpr std::size_t kCheckOneIn = 10;
// Of samples on inputs that vary, so many run on the first set, and are checked, instead.
constexpr std::size_t kRepeatOneIn = 6;
// Tensors of no more elements are drawn anew: a kernel could know all pieces of them.
constexpr std::int64_t kDrawnElements = 1 << 16;
// What larger ones are put together from.
constexpr std::size_t kPiecesOnGpu = 8;  // Each copy takes microseconds.
constexpr std::size_t kMostPieces = 4096;
constexpr std::size_t kLongestPiece = 8192;

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

std::int64_t BytesOf(const BoundCase& bound_case) {
  std::int64_t bytes = 0;
  for (const BoundTensor& tensor : bound_case.tensors) {
    bytes += tensor.is_null ? 0 : DenseBytes(tensor);
  }
  return bytes;
}

}  // namespace

bool RewritesInputs(const BoundCase& bound_case) { return BytesOf(bound_case) <= kRewriteBytes; }

bool KeptOutputs::complete() const {
  return std::none_of(outputs_.begin(), outputs_.end(),
                      [](const auto& of_call) { return of_call.empty(); });
}

absl::Status KeptOutputs::Keep(CaseBuffers& buffers, std::size_t call) {
  std::size_t at = 0;
  auto& outputs = outputs_[call];
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    if (!IsOutput(case_.tensors[i]) || case_.tensors[i].is_null) continue;
    GuardedBuffer& from = *buffers.tensor(static_cast<std::int64_t>(i));
    if (at == outputs.size()) {
      FETTLE_ASSIGN_OR_RETURN(outputs.emplace_back(), device_.Allocate(from.size_bytes()));
    }
    FETTLE_RETURN_IF_ERROR(
        device_.CopyDevice(*outputs[at++], 0, from.buffer(), from.offset(), from.size_bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> KeptOutputs::Fetch(
    const std::vector<std::vector<std::int64_t>>& rows) const {
  std::vector<std::vector<std::uint8_t>> fetched;
  if (!complete()) return absl::FailedPreconditionError("no sample left outputs to fetch");
  if (rows.size() != outputs_.size() * outputs_[0].size()) {
    return absl::InvalidArgumentError("rows of other outputs");
  }
  for (const auto& outputs : outputs_) {
    std::size_t at = 0;
    for (const BoundTensor& tensor : case_.tensors) {
      if (!IsOutput(tensor)) continue;
      const std::vector<std::int64_t>& wanted = rows[fetched.size()];
      FETTLE_ASSIGN_OR_RETURN(fetched.emplace_back(),
                              ReadRows(device_, tensor, *outputs[at++], 0, wanted));
    }
  }
  return fetched;
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> KeptOutputs::FetchAll() const {
  if (!complete()) return std::vector<std::vector<std::uint8_t>>();
  return Fetch(std::vector<std::vector<std::int64_t>>(outputs_.size() * outputs_[0].size()));
}

absl::StatusOr<std::unique_ptr<CasePair>> CasePair::Create(
    Device& device, const BoundCase& bound_case, PairSide a, PairSide b,
    std::array<std::shared_ptr<const CaseImages>, 2> inputs, const CasePairOptions& options) {
  std::unique_ptr<CasePair> pair(new CasePair(device, bound_case));
  pair->inputs_ = std::move(inputs);
  pair->random_.seed(options.seed);
  pair->digest_key_ = pair->random_();
  for (const BoundTensor& tensor : bound_case.tensors) {
    pair->resets_ = pair->resets_ || tensor.role == Role::kInOut;
  }
  pair->check_bytes_ = BytesOf(bound_case);
  pair->checks_ = options.checks;
  pair->rewrites_ = options.checks && RewritesInputs(bound_case);
  pair->workspace_ = a.plan.workspace;
  pair->workspace_.insert(pair->workspace_.end(), b.plan.workspace.begin(), b.plan.workspace.end());
  for (const BoundWorkspace& workspace : pair->workspace_) {
    pair->resets_ = pair->resets_ || (workspace.count > 0 && !workspace.zero);
  }
  pair->b_module_ = b.module;
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t state_bytes, b.module->SaveState());
  pair->b_keeps_state_ = state_bytes > 0;
  b.plan = ShiftPlan(std::move(b.plan), static_cast<std::int64_t>(a.plan.workspace.size()));
  FETTLE_RETURN_IF_ERROR(pair->PrepareVariation(options));
  FETTLE_RETURN_IF_ERROR(pair->MakeSlots(a, b, options));
  return pair;
}

absl::Status CasePair::PrepareVariation(const CasePairOptions& options) {
  for (const VariedTensor& varied : options.varied) {
    const BoundTensor& tensor = case_.tensors[static_cast<std::size_t>(varied.tensor)];
    if (rewrites_ && IsDense(tensor)) varied_.push_back(varied);
  }
  varies_ = !varied_.empty();
  is_varied_.resize(case_.tensors.size());
  std::int64_t scratch_bytes = 0;
  for (const VariedTensor& varied : varied_) {
    is_varied_[static_cast<std::size_t>(varied.tensor)] = true;
    if (DrawsAnew(varied)) {
      scratch_bytes = std::max(scratch_bytes,
                               DenseBytes(case_.tensors[static_cast<std::size_t>(varied.tensor)]));
    }
  }
  draw_ = options.draw;
  singles_ = rewrites_ ? options.singles : 0;
  single_ = options.single;
  sampled_ = std::make_unique<KeptOutputs>(device_, case_, singles_ == 0 ? 1 : 2);
  if (scratch_bytes == 0) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(scratch_, device_.Allocate(scratch_bytes));
  return absl::OkStatus();
}

bool CasePair::DrawsAnew(const VariedTensor& varied) const {
  return varied.fill &&
         case_.tensors[static_cast<std::size_t>(varied.tensor)].elements() <= kDrawnElements;
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
      std::int64_t rotate = (options.rotation_bytes + bytes - 1) / bytes;
      if (varies_ && device_.info().target.vendor != Vendor::kCpu) {
        rotate = std::max(rotate, std::min(kSlotsOfSample, kSampleBytes / bytes));
      }
      const std::int64_t fit = options.memory_bytes > 0 ? options.memory_bytes / bytes : kMostSlots;
      wanted = static_cast<int>(
          std::clamp<std::int64_t>(std::min(rotate, fit), kFewestSlots, kMostSlots));
    }
    rotated_bytes_ += bytes;
    FETTLE_ASSIGN_OR_RETURN(
        slot.a, PreparedCall::Create(device_, *a.module, a.symbols, a.plan, *slot.buffers));
    FETTLE_ASSIGN_OR_RETURN(
        slot.b, PreparedCall::Create(device_, *b.module, b.symbols, b.plan, *slot.buffers));
    // Before any kernel ran; of both sets, since one slot takes turns with them.
    for (std::size_t set = 0; made == 0 && set < inputs_.size(); ++set) {
      FETTLE_RETURN_IF_ERROR(slot.buffers->WriteInputs(inputs_[set]));
      FETTLE_ASSIGN_OR_RETURN(CaseDigests digests,
                              slot.buffers->Digests({.inputs = true}, digest_key_, kDigestLimit));
      input_digests_[set] = std::move(digests.inputs);
    }
    FETTLE_RETURN_IF_ERROR(slot.buffers->FillWorkspace(kPoison));
    slots_.push_back(std::move(slot));
  }
  return WriteFirstInputs();
}

// Of slots that vary, one has the first set and one inputs of its own, anywhere among them.
absl::Status CasePair::WriteFirstInputs() {
  const std::size_t count = slots_.size(), first = Below(count);
  const std::size_t single = count > 1 ? (first + 1 + Below(count - 1)) % count : count;
  for (std::size_t i = 0; i < count; ++i) {
    Inputs inputs = i % 2 == 0 ? Inputs::kFirst : Inputs::kOther;
    if (varies_) inputs = i == first ? Inputs::kFirst : Inputs::kVaried;
    if (i == single && singles_ > 0) inputs = Inputs::kSingle;
    FETTLE_RETURN_IF_ERROR(WriteInputs(slots_[i], inputs));
    FETTLE_RETURN_IF_ERROR(slots_[i].buffers->FillOutputs(kPoison));
  }
  return absl::OkStatus();
}

int CasePair::Wanted(int launches, bool last) const {
  if (!checks_ || (last && sampled_->complete())) return -1;
  const int groups = std::max(1, slots() / launches);
  int wanted = last ? 0 : -1;
  for (int i = 0; i < std::min(groups * launches, slots()); ++i) {
    const Slot& slot = slots_[static_cast<std::size_t>(i)];
    // Where both sets take turns, they come round soon enough; and those samples count.
    if (slot.inputs == Inputs::kFirst && !sampled_->has(0) && (varies_ || last)) return i;
    // What was just written is in the cache; half of a round is more than that.
    const bool cold = slot.written_at == 0 || ticks_ - slot.written_at >= groups / 2;
    if (slot.inputs == Inputs::kSingle && (cold || last)) wanted = i;
  }
  return wanted;
}

bool CasePair::Counts(int first, int count) const {
  if (!varies_) return true;
  for (int i = 0; i < std::min(count, slots()); ++i) {
    if (slots_[static_cast<std::size_t>((first + i) % slots())].repeats()) return false;
  }
  return true;
}

CasePair::Inputs CasePair::DrawInputs() {
  if (!varies_) return Below(2) == 0 ? Inputs::kFirst : Inputs::kOther;
  return Below(sampled_->has(0) ? kRepeatOneIn : 2) == 0 ? Inputs::kFirst : Inputs::kVaried;
}

absl::Status CasePair::WriteInputs(Slot& slot, Inputs inputs) {
  slot.inputs = inputs;
  slot.written_at = ticks_;
  switch (inputs) {
    case Inputs::kFirst:
      return slot.buffers->WriteInputs(inputs_[0]);
    case Inputs::kOther:
      return slot.buffers->WriteInputs(inputs_[1]);
    case Inputs::kVaried:
      return Vary(slot);
    case Inputs::kSingle:
      break;
  }
  single_waits_ = true;
  FETTLE_ASSIGN_OR_RETURN(auto images, single_(next_single_));
  return slot.buffers->WriteInputs(std::move(images));
}

absl::Status CasePair::Vary(Slot& slot) {
  FETTLE_RETURN_IF_ERROR(slot.buffers->WriteInputs(inputs_[Below(2)], is_varied_));
  for (const VariedTensor& varied : varied_) {
    GuardedBuffer& to = *slot.buffers->tensor(varied.tensor);
    FETTLE_RETURN_IF_ERROR(DrawsAnew(varied) ? DrawAnew(varied, to) : PutTogether(varied, to));
  }
  return absl::OkStatus();
}

absl::Status CasePair::DrawAnew(const VariedTensor& varied, GuardedBuffer& to) {
  DrawnFill fill = *varied.fill;
  fill.seed = random_();
  const std::int64_t count = case_.tensors[static_cast<std::size_t>(varied.tensor)].elements();
  if (device_draws_) {
    const absl::Status drawn = device_.Draw(*scratch_, count, fill);
    if (!absl::IsUnimplemented(drawn)) {
      FETTLE_RETURN_IF_ERROR(drawn);
      return device_.CopyDevice(to.buffer(), to.offset(), *scratch_, 0, to.size_bytes());
    }
    device_draws_ = false;
  }
  staging_.assign(static_cast<std::size_t>(to.size_bytes()), 0);
  draw_(fill, count, staging_.data());
  return to.Write(staging_);
}

// Pieces of random length from random places of both sets, one after another; they begin anywhere
// in a row. On the cpu, where copies cost little, they are half a row long.
absl::Status CasePair::PutTogether(const VariedTensor& varied, GuardedBuffer& to) {
  const BoundTensor& tensor = case_.tensors[static_cast<std::size_t>(varied.tensor)];
  const std::int64_t size = StorageBytes(tensor.dtype, 1);  // Of a unit that is moved.
  const auto units = static_cast<std::size_t>(to.size_bytes() / size);
  std::size_t longest = units / kPiecesOnGpu + 1;
  if (device_.info().target.vendor == Vendor::kCpu) {
    longest = std::min(static_cast<std::size_t>(RowElements(tensor)) / 2, kLongestPiece);
    longest = std::max(longest, units / kMostPieces + 1);
  }
  for (std::size_t at = 0; at < units;) {
    const std::size_t length = std::min(units - at, 1 + Below(2 * longest));
    const std::size_t from = Below(units - length + 1);
    FETTLE_RETURN_IF_ERROR(device_.CopyDevice(
        to.buffer(), to.offset() + static_cast<std::int64_t>(at) * size,
        *inputs_[Below(2)]->tensor(varied.tensor), static_cast<std::int64_t>(from) * size,
        static_cast<std::int64_t>(length) * size));
    at += length;
  }
  return absl::OkStatus();
}

absl::Status CasePair::Enqueue(Side side, int slot) {
  Slot& used = slots_[static_cast<std::size_t>(slot)];
  bool& called = called_[side == Side::kA ? 0 : 1];
  if (b_keeps_state_ && called) FETTLE_RETURN_IF_ERROR(b_module_->RestoreState());
  called = true;
  return (side == Side::kA ? used.a : used.b)->Enqueue();
}

absl::Status CasePair::Reset(Slot& slot, Inputs inputs) {
  if (!checks_) return slot.buffers->Restore();
  FETTLE_RETURN_IF_ERROR(slot.buffers->FillOutputs(kPoison));
  if (!workspace_.empty()) FETTLE_RETURN_IF_ERROR(slot.buffers->FillWorkspace(kPoison));
  return rewrites_ ? WriteInputs(slot, inputs) : slot.buffers->Restore();
}

absl::Status CasePair::Check(Slot& slot) {
  ++checked_;
  FETTLE_ASSIGN_OR_RETURN(
      const CaseDigests seen,
      slot.buffers->Digests(
          {.inputs = !modified_input_, .outputs = true, .guards = !guard_violation_}, digest_key_,
          kDigestLimit));
  const auto set = static_cast<std::size_t>(slot.inputs);
  std::vector<std::string>& expected = expected_[set];
  if (expected.empty()) {
    expected = seen.outputs;
  } else if (case_.deterministic && expected != seen.outputs) {
    outputs_equal_ = false;
  }
  // Each checked sample of the first set is as likely as any other to be the one that is returned.
  if (set == 0 && Below(++sampled_from_) == 0) {
    FETTLE_RETURN_IF_ERROR(sampled_->Keep(*slot.buffers, /*call=*/0));
  }
  const std::vector<std::string>& before = input_digests_[set];
  for (std::size_t i = 0; i < seen.inputs.size() && !modified_input_; ++i) {
    if (seen.inputs[i] != before[i]) modified_input_ = case_.tensors[i].name;
  }
  if (!guard_violation_) guard_violation_ = seen.guard_violation;
  return absl::OkStatus();
}

// Each of them is as likely as any other to be the one that is returned.
absl::Status CasePair::KeepSingle(Slot& slot) {
  const int index = next_single_++;
  // Twice as far apart each time, so that there is a late one however long this takes.
  single_at_ = samples_ + 1 + static_cast<std::int64_t>(Below(std::size_t{3} << next_single_));
  if (Below(static_cast<std::size_t>(next_single_)) != 0) return absl::OkStatus();
  kept_single_ = index;
  return sampled_->Keep(*slot.buffers, /*call=*/1);
}

absl::Status CasePair::CheckSample(int first, int count) {
  std::vector<int> repeated;
  for (int i = 0; i < count; ++i) {
    if (SlotAt(first + i).repeats()) repeated.push_back(first + i);
  }
  if (repeated.empty()) return absl::OkStatus();
  // Prefers a slot of the first input set while none has been seen.
  int chosen = repeated[Below(repeated.size())];
  for (const int index : repeated) {
    if (!sampled_->has(0) && SlotAt(index).inputs == Inputs::kFirst) chosen = index;
  }
  const bool first_of_set = expected_[static_cast<std::size_t>(SlotAt(chosen).inputs)].empty();
  if (check_bytes_ > kAlwaysCheckBytes && !varies_ && !first_of_set && Below(kCheckOneIn) != 0) {
    return absl::OkStatus();
  }
  return Check(SlotAt(chosen));
}

absl::Status CasePair::AfterSample(Side side, int first, int count, bool warmup) {
  const int used = std::min(count, slots());
  ++ticks_;
  if (side == Side::kB && !warmup && checks_) {
    ++samples_;
    FETTLE_RETURN_IF_ERROR(CheckSample(first, used));
  }
  for (int i = 0; i < used; ++i) {
    Slot& slot = SlotAt(first + i);
    if (slot.inputs != Inputs::kSingle || side != Side::kB) continue;
    FETTLE_RETURN_IF_ERROR(KeepSingle(slot));
    slot.inputs = Inputs::kVaried;
    single_waits_ = false;
  }
  Inputs inputs = DrawInputs();
  int single = -1;
  if (!warmup && !single_waits_ && next_single_ < singles_ && samples_ >= single_at_ &&
      sampled_->has(0)) {
    if (varies_) inputs = Inputs::kVaried;
    single = static_cast<int>(Below(static_cast<std::size_t>(used)));
  }
  for (int i = 0; i < used; ++i) {
    Slot& slot = SlotAt(first + i);
    if (!varies_) inputs = DrawInputs();  // Each by itself.
    Inputs next = i == single ? Inputs::kSingle : inputs;
    // Side a leaves it to the other; and samples that warm up are of another size, so that they
    // leave every slot as it is.
    if (slot.inputs == Inputs::kSingle) next = Inputs::kSingle;
    if (warmup && varies_) next = slot.inputs;
    FETTLE_RETURN_IF_ERROR(Reset(slot, next));
  }
  bool& called = called_[side == Side::kA ? 0 : 1];
  if (b_keeps_state_ && side == Side::kB && called) {
    FETTLE_RETURN_IF_ERROR(b_module_->RestoreState());
  }
  called = false;
  return absl::OkStatus();
}

}  // namespace fettle
