// SPDX-License-Identifier: Apache-2.0
#include "verifier/case_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status_macros.h"
#include "device/output_rows.h"
#include "device/prepared_call.h"
#include "device/tensor_layout.h"
#include "verifier/inputs.h"

namespace fettle {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;

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
                                                          const CaseInputCache::Entry& inputs) {
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.is_null || tensor.role != Role::kInOut) continue;
    const auto index = static_cast<std::int64_t>(i);
    const auto& touched = inputs.touched[i];
    if (!touched) continue;
    FETTLE_ASSIGN_OR_RETURN(const Bytes after, buffers.ReadDense(index));
    const std::int64_t row = ChangedUntouchedRow(tensor, inputs.host[i], after, *touched);
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

}  // namespace

void CaseRunner::Clear() {
  buffers_.reset();
  layout_.clear();
  written_.reset();
  output_digests_.clear();
}

absl::StatusOr<std::unique_ptr<CaseBuffers>> CaseRunner::AllocateBuffers(
    const RunRequest& request) {
  GuardOptions options;
  options.placement = request.placement;
  options.key = guard_key_;
  options.place = ++allocations_;
  if (device_.info().target.vendor != Vendor::kCpu) options.patterns = &patterns_;
  FETTLE_ASSIGN_OR_RETURN(
      CaseBuffers buffers,
      CaseBuffers::Allocate(device_, request.bound_case, request.kernel.plan.workspace, options));
  return std::make_unique<CaseBuffers>(std::move(buffers));
}

absl::Status CaseRunner::PrepareBuffers(const RunRequest& request) {
  const std::string layout = LayoutOf(request);
  if (request.reuse_buffers && buffers_ && layout == layout_) return absl::OkStatus();
  // The old ones live until the new ones are there, so that these lie elsewhere.
  absl::StatusOr<std::unique_ptr<CaseBuffers>> buffers = AllocateBuffers(request);
  Clear();
  if (absl::IsResourceExhausted(buffers.status())) {
    inputs_.Clear();
    buffers = AllocateBuffers(request);
  }
  FETTLE_RETURN_IF_ERROR(buffers.status());
  buffers_ = *std::move(buffers);
  layout_ = layout;
  return absl::OkStatus();
}

absl::StatusOr<RunObservation> CaseRunner::Run(const RunRequest& request, DeviceModule& module) {
  RunObservation result;
  const std::chrono::nanoseconds limit = request.launch_limit;
  FETTLE_RETURN_IF_ERROR(PrepareBuffers(request));
  output_digests_.clear();
  FETTLE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const CaseInputCache::Entry> inputs,
      inputs_.Get(request.bound_case,
                  {request.input_seed, request.inputs, request.flip_tensor, request.flip_element},
                  request.files));
  // Calls that change inputs fail, so what was written stays as it is.
  if (written_ != inputs) {
    written_.reset();
    FETTLE_RETURN_IF_ERROR(buffers_->WriteInputs(inputs->images));
    written_ = inputs;
  }
  std::vector<std::string>& inputs_before = inputs->digests[guard_key_];
  if (inputs_before.empty()) {
    FETTLE_ASSIGN_OR_RETURN(const CaseDigests before,
                            buffers_->Digests({.inputs = true}, guard_key_, limit));
    inputs_before = before.inputs;
  }
  FETTLE_ASSIGN_OR_RETURN(PreparedCall call,
                          PreparedCall::Create(device_, module, request.kernel.symbols,
                                               request.kernel.plan, *buffers_));
  device_.SetSchedule(request.schedule, request.input_seed);
  result.at_page_end = buffers_->at_page_end();
  const int repeats = std::max(1, request.repeats);
  for (int repeat = 0; repeat < repeats; ++repeat) {
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
    const bool last = repeat + 1 == repeats;
    if (last) result.findings = device_.TakeFindings();
    FETTLE_ASSIGN_OR_RETURN(
        CaseDigests seen,
        buffers_->Digests({.inputs = last, .outputs = true, .guards = last}, guard_key_, limit));
    output_digests_ = seen.outputs;
    if (last) {
      for (std::size_t i = 0; i < seen.inputs.size() && !result.modified_input; ++i) {
        if (seen.inputs[i] != inputs_before[i]) {
          result.modified_input = Name(request.bound_case.tensors[i]);
        }
      }
      result.guard_violation = std::move(seen.guard_violation);
    }
    if (repeat == 0) {
      result.output_digests = std::move(seen.outputs);
      if (request.want_outputs && result.output_digests != request.known_digests) {
        FETTLE_ASSIGN_OR_RETURN(Outputs outputs, ReadOutputs(*buffers_, request.output_poison));
        result.poison_bytes = std::move(outputs.poison_bytes);
        result.outputs = std::move(outputs.dense);
      }
    } else if (seen.outputs != result.output_digests) {
      result.repeats_equal = false;
      if (request.want_outputs && !request.bound_case.deterministic &&
          result.other_outputs.size() < 4) {
        FETTLE_ASSIGN_OR_RETURN(Outputs outputs, ReadOutputs(*buffers_, request.output_poison));
        result.other_outputs.push_back(std::move(outputs.dense));
      }
    }
  }
  if (!result.modified_input) {
    FETTLE_ASSIGN_OR_RETURN(result.modified_input, FindChangedRow(*buffers_, *inputs));
  }
  if (result.modified_input) written_.reset();
  if (result.guard_violation) FETTLE_RETURN_IF_ERROR(buffers_->WriteGuards());
  return result;
}

absl::StatusOr<std::vector<Bytes>> CaseRunner::Fetch(
    const std::vector<std::vector<std::int64_t>>& rows) {
  if (buffers_ == nullptr || output_digests_.empty()) {
    return absl::FailedPreconditionError("no call left outputs to fetch");
  }
  FETTLE_ASSIGN_OR_RETURN(const CaseDigests now, buffers_->Digests({.outputs = true}, guard_key_,
                                                                   std::chrono::seconds(60)));
  if (now.outputs != output_digests_) {
    return absl::AbortedError("outputs changed after the call had ended");
  }
  std::vector<Bytes> outputs;
  const BoundCase& bound_case = buffers_->bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!IsOutput(tensor)) continue;
    const std::size_t at = outputs.size();
    if (at >= rows.size()) return absl::InvalidArgumentError("rows for too few outputs");
    GuardedBuffer& buffer = *buffers_->tensor(static_cast<std::int64_t>(i));
    FETTLE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                            ReadRows(device_, tensor, buffer.buffer(), buffer.offset(), rows[at]));
  }
  return outputs;
}

}  // namespace fettle
