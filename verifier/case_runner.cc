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

// Name of an input, or untouched row, that a call changed.
absl::StatusOr<std::optional<std::string>> FindModifiedInput(const CaseBuffers& buffers,
                                                             const std::vector<Bytes>& inputs) {
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.is_null || tensor.role == Role::kOut) continue;
    const auto index = static_cast<std::int64_t>(i);
    if (tensor.role == Role::kInOut) {
      const auto touched = TouchedRows(bound_case, index, inputs);
      if (!touched) continue;
      FETTLE_ASSIGN_OR_RETURN(const Bytes after, buffers.ReadDense(index));
      const std::int64_t row = ChangedUntouchedRow(tensor, inputs[i], after, *touched);
      if (row >= 0) return std::optional(fmt::format("{} row {}", Name(tensor), row));
      continue;
    }
    FETTLE_ASSIGN_OR_RETURN(const Bytes memory, buffers.ReadMemory(index));
    Bytes expected(memory.size(), IsFloat(tensor.dtype) ? kPaddingNanByte : kPaddingByte);
    ScatterToLayout(tensor, inputs[i], expected);
    if (memory != expected) return std::optional(Name(tensor));
  }
  return std::optional<std::string>();
}

// Outputs of one call as they lie in memory.
struct Outputs {
  std::vector<Bytes> dense;
  std::vector<std::int64_t> poison_bytes;
  std::optional<std::string> padding_violation;
};

absl::StatusOr<Outputs> ReadOutputs(const CaseBuffers& buffers, std::uint8_t poison) {
  Outputs result;
  const BoundCase& bound_case = buffers.bound_case();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!IsOutput(tensor)) continue;
    FETTLE_ASSIGN_OR_RETURN(Bytes memory, buffers.ReadMemory(static_cast<std::int64_t>(i)));
    const std::uint8_t padding = tensor.role == Role::kOut          ? poison
                                 : IsFloat(tensor.dtype) ? kPaddingNanByte
                                                         : kPaddingByte;
    if (const std::int64_t changed = CountPaddingChanges(tensor, memory, padding);
        changed > 0 && !result.padding_violation) {
      result.padding_violation =
          fmt::format("{}: {} bytes of padding were written", Name(tensor), changed);
    }
    Bytes dense = std::move(memory);
    if (!IsDense(tensor)) {
      Bytes gathered(static_cast<std::size_t>(DenseBytes(tensor)));
      GatherFromLayout(tensor, dense, gathered);
      dense = std::move(gathered);
    }
    result.poison_bytes.push_back(std::count(dense.begin(), dense.end(), poison));
    result.dense.push_back(std::move(dense));
  }
  return result;
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
}

absl::Status CaseRunner::PrepareBuffers(const RunRequest& request) {
  const std::string layout = LayoutOf(request);
  if (request.reuse_buffers && buffers_ && layout == layout_) return absl::OkStatus();
  Clear();
  GuardOptions options;
  options.placement = request.placement;
  options.key = guard_key_;
  FETTLE_ASSIGN_OR_RETURN(CaseBuffers buffers,
                          CaseBuffers::Allocate(device_, request.bound_case,
                                                request.kernel.plan.workspace, options));
  buffers_ = std::make_unique<CaseBuffers>(std::move(buffers));
  layout_ = layout;
  return absl::OkStatus();
}

absl::StatusOr<RunObservation> CaseRunner::Run(const RunRequest& request, DeviceModule& module) {
  RunObservation result;
  FETTLE_RETURN_IF_ERROR(PrepareBuffers(request));
  FETTLE_ASSIGN_OR_RETURN(
      const std::vector<Bytes> inputs,
      MakeInputs(request.bound_case,
                 {request.input_seed, request.inputs, request.flip_tensor, request.flip_element},
                 request.files));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (request.bound_case.tensors[i].role == Role::kOut) continue;
    const auto index = static_cast<std::int64_t>(i);
    FETTLE_RETURN_IF_ERROR(
        buffers_->WriteInput(index, inputs[i], TouchedRows(request.bound_case, index, inputs)));
  }
  FETTLE_ASSIGN_OR_RETURN(
      PreparedCall call, PreparedCall::Create(device_, module, request.kernel.symbols,
                                              request.kernel.plan, *buffers_));
  device_.SetSchedule(request.schedule, request.input_seed);
  result.at_page_end = buffers_->at_page_end();
  for (int repeat = 0; repeat < std::max(1, request.repeats); ++repeat) {
    FETTLE_RETURN_IF_ERROR(buffers_->FillOutputs(request.output_poison));
    FETTLE_RETURN_IF_ERROR(buffers_->FillWorkspace(request.workspace_poison));
    FETTLE_RETURN_IF_ERROR(buffers_->Restore());
    FETTLE_RETURN_IF_ERROR(device_.Synchronize(request.launch_limit));
    buffers_->Annotate();
    const auto start = Clock::now();
    FETTLE_RETURN_IF_ERROR(call.Enqueue());
    FETTLE_RETURN_IF_ERROR(device_.Synchronize(request.launch_limit));
    result.device_ns +=
        static_cast<double>(std::chrono::nanoseconds(Clock::now() - start).count());
    FETTLE_ASSIGN_OR_RETURN(Outputs outputs, ReadOutputs(*buffers_, request.output_poison));
    if (outputs.padding_violation) result.padding_violation = outputs.padding_violation;
    if (repeat == 0) {
      for (const Bytes& bytes : outputs.dense) result.output_digests.push_back(Digest(bytes));
      result.poison_bytes = std::move(outputs.poison_bytes);
      result.outputs = std::move(outputs.dense);
    } else if (outputs.dense != result.outputs) {
      result.repeats_equal = false;
      if (request.want_outputs && !request.bound_case.deterministic &&
          result.other_outputs.size() < 4) {
        result.other_outputs.push_back(std::move(outputs.dense));
      }
    }
  }
  result.findings = device_.TakeFindings();
  FETTLE_ASSIGN_OR_RETURN(result.modified_input, FindModifiedInput(*buffers_, inputs));
  FETTLE_ASSIGN_OR_RETURN(result.guard_violation, buffers_->CheckGuards());
  if (result.guard_violation) FETTLE_RETURN_IF_ERROR(buffers_->WriteGuards());
  if (!request.want_outputs) result.outputs.clear();
  return result;
}

}  // namespace fettle
