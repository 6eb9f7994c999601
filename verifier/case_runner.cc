// SPDX-License-Identifier: Apache-2.0
#include "verifier/case_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "device/prepared_call.h"
#include "device/tensor_layout.h"
#include "verifier/inputs.h"

namespace fettle {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;

// Cases alternate between their inputs and changed ones.
constexpr std::size_t kMadeInputs = 2;

bool IsOutput(const BoundTensor& tensor) {
  return !tensor.is_null && (tensor.role == Role::kOut || tensor.role == Role::kInOut);
}

std::string Digest(const Bytes& bytes) {
  return Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// What two calls must share to run in the same memory.
std::string LayoutOf(const RunRequest& request) {
  std::string text = fmt::format("{}", static_cast<int>(request.placement));
  for (const BoundTensor& tensor : request.bound_case.tensors) {
    text += fmt::format("|{} {} {} {} [{}] [{}] {} {}", tensor.name, tensor.member,
                        static_cast<int>(tensor.role), static_cast<int>(tensor.dtype),
                        fmt::join(tensor.shape, ","), fmt::join(tensor.strides, ","),
                        tensor.align_bytes, tensor.is_null);
  }
  for (const BoundWorkspace& workspace : request.kernel.plan.workspace) {
    text += fmt::format("|w {} {} {}", static_cast<int>(workspace.dtype), workspace.count,
                        workspace.zero);
  }
  return text;
}

// The first row of an inout tensor outside `touched` that differs; -1: none.
std::int64_t ChangedUntouchedRow(const BoundTensor& tensor, const Bytes& before, const Bytes& after,
                                 const std::vector<std::int64_t>& touched) {
  const std::int64_t rows = RowCount(tensor);
  const std::int64_t row = StorageBytes(tensor.dtype, RowElements(tensor));
  std::vector<bool> may_change(static_cast<std::size_t>(rows), false);
  for (const std::int64_t r : touched) {
    if (r >= 0 && r < rows) may_change[static_cast<std::size_t>(r)] = true;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    if (may_change[static_cast<std::size_t>(r)]) continue;
    if (std::memcmp(before.data() + r * row, after.data() + r * row,
                    static_cast<std::size_t>(row)) != 0) {
      return r;
    }
  }
  return -1;
}

std::string Name(const BoundTensor& tensor) {
  return tensor.member == 0 ? tensor.name : fmt::format("{}[{}]", tensor.name, tensor.member);
}

// Name of an inout tensor with a changed row outside those that the operator may change.
absl::StatusOr<std::optional<std::string>> FindChangedRow(const CaseBuffers& buffers,
                                                          const std::vector<Bytes>& inputs) {
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.is_null || tensor.role != Role::kInOut) continue;
    const auto index = static_cast<std::int64_t>(i);
    const auto touched = TouchedRows(bound_case, index, inputs);
    if (!touched) continue;
    FETTLE_ASSIGN_OR_RETURN(const Bytes after, buffers.ReadDense(index));
    const std::int64_t row = ChangedUntouchedRow(tensor, inputs[i], after, *touched);
    if (row >= 0) return std::optional(fmt::format("{} row {}", Name(tensor), row));
  }
  return std::optional<std::string>();
}

// Outputs of one call: dense bytes, and how many of them still hold the poison.
struct Outputs {
  std::vector<Bytes> dense;
  std::vector<std::int64_t> poison_bytes;
};

absl::StatusOr<Outputs> ReadOutputs(const CaseBuffers& buffers, std::uint8_t poison) {
  Outputs result;
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    if (!IsOutput(bound_case.tensors[i])) continue;
    FETTLE_ASSIGN_OR_RETURN(Bytes dense, buffers.ReadDense(static_cast<std::int64_t>(i)));
    result.poison_bytes.push_back(std::count(dense.begin(), dense.end(), poison));
    result.dense.push_back(std::move(dense));
  }
  return result;
}

// "y: 12 bytes of padding were written", of outputs with padding.
absl::StatusOr<std::optional<std::string>> FindWrittenPadding(const CaseBuffers& buffers,
                                                              std::uint8_t poison) {
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!IsOutput(tensor) || IsDense(tensor)) continue;
    FETTLE_ASSIGN_OR_RETURN(const Bytes memory, buffers.ReadMemory(static_cast<std::int64_t>(i)));
    const std::uint8_t padding = tensor.role == Role::kOut ? poison
                                 : IsFloat(tensor.dtype)   ? kPaddingNanByte
                                                           : kPaddingByte;
    if (const std::int64_t changed = CountPaddingChanges(tensor, memory, padding); changed > 0) {
      return std::optional(
          fmt::format("{}: {} bytes of padding were written", Name(tensor), changed));
    }
  }
  return std::optional<std::string>();
}

// Of every output; what lies between the rows of one with padding does not count.
absl::StatusOr<std::vector<std::string>> DigestOutputs(const CaseBuffers& buffers,
                                                       std::uint64_t key,
                                                       std::chrono::nanoseconds limit) {
  const BoundCase& bound_case = buffers.bound_case();
  std::vector<std::string> digests;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    if (!IsOutput(bound_case.tensors[i])) continue;
    const auto index = static_cast<std::int64_t>(i);
    if (IsDense(bound_case.tensors[i])) {
      FETTLE_ASSIGN_OR_RETURN(digests.emplace_back(), buffers.DigestMemory(index, key, limit));
      continue;
    }
    FETTLE_ASSIGN_OR_RETURN(const Bytes dense, buffers.ReadDense(index));
    digests.push_back(Digest(dense));
  }
  return digests;
}

}  // namespace

std::optional<std::vector<std::int64_t>> TouchedRows(const BoundCase& bound_case,
                                                     std::int64_t index,
                                                     const std::vector<Bytes>& inputs) {
  const Restore& restore = bound_case.tensors[static_cast<std::size_t>(index)].restore;
  if (restore.kind == Restore::Kind::kTouchedList) return restore.rows;
  if (restore.kind != Restore::Kind::kTouchedIndex) return std::nullopt;
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.name != restore.index || tensor.is_null) continue;
    for (std::int64_t e = 0; e < tensor.elements(); ++e) {
      rows.push_back(DecodeInteger(tensor.dtype, inputs[i].data(), e));
    }
  }
  return rows;
}

void CaseRunner::Clear() {
  buffers_.reset();
  layout_.clear();
  written_key_.clear();
}

absl::Status CaseRunner::PrepareBuffers(const RunRequest& request) {
  const std::string layout = LayoutOf(request);
  if (request.reuse_buffers && buffers_ && layout == layout_) return absl::OkStatus();
  Clear();
  GuardOptions options;
  options.placement = request.placement;
  options.key = guard_key_;
  FETTLE_ASSIGN_OR_RETURN(
      CaseBuffers buffers,
      CaseBuffers::Allocate(device_, request.bound_case, request.kernel.plan.workspace, options));
  buffers_ = std::make_unique<CaseBuffers>(std::move(buffers));
  layout_ = layout;
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<Bytes>*> CaseRunner::PrepareInputs(const RunRequest& request,
                                                                    bool in_place) {
  const std::string key = fmt::format("{} {:x} {} {} {} {}", request.bound_case.label,
                                      request.input_seed, static_cast<int>(request.inputs),
                                      request.flip_tensor, request.flip_element, layout_);
  if (made_.empty() || made_.front().key != key) {
    const auto found = std::find_if(made_.begin(), made_.end(),
                                    [&key](const MadeInputs& made) { return made.key == key; });
    if (found != made_.end()) {
      made_.splice(made_.begin(), made_, found);
    } else {
      if (made_.size() >= kMadeInputs) made_.pop_back();
      FETTLE_ASSIGN_OR_RETURN(std::vector<Bytes> inputs,
                              MakeInputs(request.bound_case,
                                         {request.input_seed, request.inputs, request.flip_tensor,
                                          request.flip_element},
                                         request.files));
      made_.push_front({key, std::move(inputs)});
    }
  }
  const std::vector<Bytes>& inputs = made_.front().tensors;
  // Calls that change inputs fail, so what was written stays as it is.
  if (in_place && written_key_ == key) return &inputs;
  written_key_.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (request.bound_case.tensors[i].role == Role::kOut) continue;
    const auto index = static_cast<std::int64_t>(i);
    FETTLE_RETURN_IF_ERROR(
        buffers_->WriteInput(index, inputs[i], TouchedRows(request.bound_case, index, inputs)));
  }
  written_key_ = key;
  return &inputs;
}

absl::StatusOr<RunObservation> CaseRunner::Run(const RunRequest& request, DeviceModule& module) {
  RunObservation result;
  const CaseBuffers* const before = buffers_.get();
  FETTLE_RETURN_IF_ERROR(PrepareBuffers(request));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes>* const inputs,
                          PrepareInputs(request, /*in_place=*/buffers_.get() == before));
  FETTLE_ASSIGN_OR_RETURN(PreparedCall call,
                          PreparedCall::Create(device_, module, request.kernel.symbols,
                                               request.kernel.plan, *buffers_));
  device_.SetSchedule(request.schedule, request.input_seed);
  result.at_page_end = buffers_->at_page_end();
  const std::chrono::nanoseconds limit = request.launch_limit;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::string> inputs_before,
                          buffers_->DigestInputs(guard_key_, limit));
  for (int repeat = 0; repeat < std::max(1, request.repeats); ++repeat) {
    FETTLE_RETURN_IF_ERROR(buffers_->FillOutputs(request.output_poison));
    FETTLE_RETURN_IF_ERROR(buffers_->FillWorkspace(request.workspace_poison));
    FETTLE_RETURN_IF_ERROR(buffers_->Restore());
    FETTLE_RETURN_IF_ERROR(device_.Synchronize(limit));
    buffers_->Annotate();
    const auto start = Clock::now();
    FETTLE_RETURN_IF_ERROR(call.Enqueue());
    FETTLE_RETURN_IF_ERROR(device_.Synchronize(limit));
    result.device_ns += static_cast<double>(std::chrono::nanoseconds(Clock::now() - start).count());
    FETTLE_ASSIGN_OR_RETURN(std::optional<std::string> padding,
                            FindWrittenPadding(*buffers_, request.output_poison));
    if (padding) result.padding_violation = std::move(padding);
    FETTLE_ASSIGN_OR_RETURN(std::vector<std::string> digests,
                            DigestOutputs(*buffers_, guard_key_, limit));
    if (repeat == 0) {
      result.output_digests = std::move(digests);
      if (request.want_outputs && result.output_digests != request.known_digests) {
        FETTLE_ASSIGN_OR_RETURN(Outputs outputs, ReadOutputs(*buffers_, request.output_poison));
        result.poison_bytes = std::move(outputs.poison_bytes);
        result.outputs = std::move(outputs.dense);
      }
    } else if (digests != result.output_digests) {
      result.repeats_equal = false;
      if (request.want_outputs && !request.bound_case.deterministic &&
          result.other_outputs.size() < 4) {
        FETTLE_ASSIGN_OR_RETURN(Outputs outputs, ReadOutputs(*buffers_, request.output_poison));
        result.other_outputs.push_back(std::move(outputs.dense));
      }
    }
  }
  result.findings = device_.TakeFindings();
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::string> inputs_after,
                          buffers_->DigestInputs(guard_key_, limit));
  for (std::size_t i = 0; i < inputs_after.size() && !result.modified_input; ++i) {
    if (inputs_after[i] != inputs_before[i]) {
      result.modified_input = Name(request.bound_case.tensors[i]);
    }
  }
  if (!result.modified_input) {
    FETTLE_ASSIGN_OR_RETURN(result.modified_input, FindChangedRow(*buffers_, *inputs));
  }
  if (result.modified_input) written_key_.clear();
  FETTLE_ASSIGN_OR_RETURN(result.guard_violation, buffers_->CheckGuards());
  if (result.guard_violation) FETTLE_RETURN_IF_ERROR(buffers_->WriteGuards());
  return result;
}

}  // namespace fettle
