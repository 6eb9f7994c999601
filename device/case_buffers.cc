// SPDX-License-Identifier: Apache-2.0
#include "device/case_buffers.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "device/tensor_layout.h"

namespace fettle {
namespace {

std::string TensorLabel(const BoundTensor& tensor, const BoundCase& bound_case) {
  for (const BoundPointers& pointers : bound_case.pointers) {
    if (pointers.name == tensor.name) return fmt::format("{}[{}]", tensor.name, tensor.member);
  }
  return tensor.name;
}

std::vector<std::uint8_t> AddressBytes(const std::vector<std::uint64_t>& addresses) {
  std::vector<std::uint8_t> bytes(addresses.size() * sizeof(std::uint64_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), addresses.data(), bytes.size());
  return bytes;
}

// Byte ranges of the given rows in memory, neighbours merged.
std::vector<std::pair<std::int64_t, std::int64_t>> RowRanges(const BoundTensor& tensor,
                                                             std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::int64_t row = RowElements(tensor);
  const std::int64_t size = SizeOf(tensor.dtype);
  const std::int64_t stride = tensor.strides.empty() ? row : tensor.strides[0];
  BoundTensor one = tensor;
  one.shape.erase(one.shape.begin());
  if (!one.strides.empty()) one.strides.erase(one.strides.begin());
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const std::int64_t r : rows) {
    if (r < 0 || r >= RowCount(tensor)) continue;
    const std::pair<std::int64_t, std::int64_t> range{r * stride * size, one.extent() * size};
    if (!ranges.empty() && ranges.back().first + ranges.back().second == range.first) {
      ranges.back().second += range.second;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

}  // namespace

absl::StatusOr<CaseBuffers> CaseBuffers::Allocate(Device& device, const BoundCase& bound_case,
                                                  const std::vector<BoundWorkspace>& workspace,
                                                  const GuardOptions& options) {
  CaseBuffers result;
  result.device_ = &device;
  result.case_ = bound_case;
  result.workspace_spec_ = workspace;
  result.options_ = options;
  const auto allocate = [&](DType dtype, std::int64_t size, std::int64_t align,
                            Placement placement) -> absl::StatusOr<std::unique_ptr<GuardedBuffer>> {
    GuardOptions one = options;
    one.placement = placement;
    FETTLE_ASSIGN_OR_RETURN(GuardedBuffer buffer,
                            GuardedBuffer::Allocate(device, dtype, size, align, one));
    return std::make_unique<GuardedBuffer>(std::move(buffer));
  };
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (tensor.is_null) {
      result.tensors_.push_back(nullptr);
      continue;
    }
    FETTLE_ASSIGN_OR_RETURN(auto buffer, allocate(tensor.dtype, LayoutBytes(tensor),
                                                  tensor.align_bytes, options.placement));
    result.tensors_.push_back(std::move(buffer));
  }
  for (const BoundWorkspace& one : workspace) {
    const Placement placement =
        options.placement == Placement::kMisaligned ? Placement::kGuarded : options.placement;
    FETTLE_ASSIGN_OR_RETURN(auto buffer, allocate(one.dtype, StorageBytes(one.dtype, one.count),
                                                  /*align=*/256, placement));
    result.workspace_.push_back(std::move(buffer));
  }
  FETTLE_RETURN_IF_ERROR(result.MakeTables());
  return result;
}

absl::Status CaseBuffers::MakeTables() {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(case_.pointers.size()); ++i) {
    const BoundPointers& pointers = case_.pointers[Index(i)];
    if (pointers.in_struct || pointers.count == 0) {
      tables_.push_back(nullptr);
      continue;
    }
    GuardOptions options = options_;
    options.placement = Placement::kGuarded;
    FETTLE_ASSIGN_OR_RETURN(
        GuardedBuffer table,
        GuardedBuffer::Allocate(*device_, DType::kI64, pointers.count * 8, /*align=*/0, options));
    FETTLE_RETURN_IF_ERROR(table.Write(AddressBytes(PointerAddresses(i))));
    tables_.push_back(std::make_unique<GuardedBuffer>(std::move(table)));
  }
  return absl::OkStatus();
}

std::int64_t CaseBuffers::size_bytes() const {
  std::int64_t total = 0;
  for (const auto* list : {&tensors_, &workspace_, &tables_}) {
    for (const auto& buffer : *list) total += buffer ? buffer->buffer().size_bytes() : 0;
  }
  for (const Saved& saved : saved_) total += saved.copy->size_bytes();
  return total;
}

absl::Status CaseBuffers::WriteInput(std::int64_t index, std::span<const std::uint8_t> dense,
                                     std::optional<std::vector<std::int64_t>> touched) {
  const BoundTensor& tensor = case_.tensors[Index(index)];
  if (tensor.is_null) return absl::OkStatus();
  FETTLE_CHECK(static_cast<std::int64_t>(dense.size()) == DenseBytes(tensor));
  GuardedBuffer& buffer = *tensors_[Index(index)];
  if (tensor.role != Role::kInOut && IsDense(tensor)) return buffer.Write(dense);
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(LayoutBytes(tensor)),
                                   IsFloat(tensor.dtype) ? kPaddingNanByte : kPaddingByte);
  ScatterToLayout(tensor, dense, memory);
  FETTLE_RETURN_IF_ERROR(buffer.Write(memory));
  if (tensor.role == Role::kInOut) return Save(index, memory, touched);
  return absl::OkStatus();
}

absl::Status CaseBuffers::Save(std::int64_t index, std::span<const std::uint8_t> memory,
                               const std::optional<std::vector<std::int64_t>>& touched) {
  if (memory.empty()) return absl::OkStatus();
  const BoundTensor& tensor = case_.tensors[Index(index)];
  auto found = std::find_if(saved_.begin(), saved_.end(),
                            [&](const Saved& saved) { return saved.tensor == index; });
  if (found == saved_.end()) {
    FETTLE_ASSIGN_OR_RETURN(auto copy, device_->Allocate(static_cast<std::int64_t>(memory.size())));
    found = saved_.insert(saved_.end(), Saved{index, std::move(copy), {}});
  }
  found->ranges.clear();
  if (touched && !tensor.shape.empty()) {
    found->ranges = RowRanges(tensor, *touched);
  } else {
    found->ranges.emplace_back(0, static_cast<std::int64_t>(memory.size()));
  }
  return device_->CopyIn(*found->copy, 0, memory);
}

absl::Status CaseBuffers::FillOutputs(std::uint8_t byte) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (case_.tensors[i].role != Role::kOut || !tensors_[i]) continue;
    FETTLE_RETURN_IF_ERROR(tensors_[i]->Fill(byte));
  }
  return absl::OkStatus();
}

absl::Status CaseBuffers::FillWorkspace(std::uint8_t byte) {
  for (const auto& buffer : workspace_) FETTLE_RETURN_IF_ERROR(buffer->Fill(byte));
  return absl::OkStatus();
}

void CaseBuffers::Annotate() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i]) continue;
    const Role role = case_.tensors[i].role;
    device_->Annotate(tensors_[i]->buffer(),
                      {TensorLabel(case_.tensors[i], case_), /*initialised=*/role != Role::kOut,
                       /*read_only=*/role == Role::kIn || role == Role::kIndex});
  }
  for (std::size_t i = 0; i < workspace_.size(); ++i) {
    device_->Annotate(workspace_[i]->buffer(), {workspace_spec_[i].name, workspace_spec_[i].zero,
                                                /*read_only=*/false});
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (!tables_[i]) continue;
    device_->Annotate(tables_[i]->buffer(), {case_.pointers[i].name, /*initialised=*/true,
                                             /*read_only=*/true});
  }
}

absl::Status CaseBuffers::Restore() {
  for (const Saved& saved : saved_) {
    GuardedBuffer& to = *tensors_[Index(saved.tensor)];
    for (const auto& [offset, size] : saved.ranges) {
      FETTLE_RETURN_IF_ERROR(
          device_->CopyDevice(to.buffer(), to.offset() + offset, *saved.copy, offset, size));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint8_t>> CaseBuffers::ReadMemory(std::int64_t index) const {
  const auto& buffer = tensors_[Index(index)];
  std::vector<std::uint8_t> memory(buffer ? static_cast<std::size_t>(buffer->size_bytes()) : 0);
  if (buffer) FETTLE_RETURN_IF_ERROR(buffer->Read(memory));
  return memory;
}

absl::StatusOr<std::vector<std::uint8_t>> CaseBuffers::ReadDense(std::int64_t index) const {
  const BoundTensor& tensor = case_.tensors[Index(index)];
  FETTLE_ASSIGN_OR_RETURN(std::vector<std::uint8_t> memory, ReadMemory(index));
  if (tensor.is_null || IsDense(tensor)) return memory;
  std::vector<std::uint8_t> dense(static_cast<std::size_t>(DenseBytes(tensor)));
  GatherFromLayout(tensor, memory, dense);
  return dense;
}

absl::StatusOr<std::string> CaseBuffers::DigestMemory(std::int64_t index, std::uint64_t key,
                                                      std::chrono::nanoseconds limit) const {
  const GuardedBuffer* buffer = tensors_[Index(index)].get();
  if (buffer == nullptr) return std::string();
  const absl::StatusOr<DeviceDigest> digest =
      device_->Digest(buffer->buffer(), buffer->offset(), buffer->size_bytes(), key, limit);
  if (digest.ok()) return fmt::format("{:016x}{:016x}", (*digest)[0], (*digest)[1]);
  if (!absl::IsUnimplemented(digest.status())) return digest.status();
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> memory, ReadMemory(index));
  return Sha256Hex({reinterpret_cast<const char*>(memory.data()), memory.size()});
}

absl::StatusOr<std::vector<std::string>> CaseBuffers::DigestInputs(
    std::uint64_t key, std::chrono::nanoseconds limit) const {
  std::vector<std::string> digests(case_.tensors.size());
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const BoundTensor& tensor = case_.tensors[i];
    if (tensor.is_null || tensor.role == Role::kOut || tensor.role == Role::kInOut) continue;
    FETTLE_ASSIGN_OR_RETURN(digests[i], DigestMemory(static_cast<std::int64_t>(i), key, limit));
  }
  return digests;
}

absl::StatusOr<std::optional<std::string>> CaseBuffers::CheckGuards() const {
  std::string text;
  const auto check = [&](const GuardedBuffer* buffer, const std::string& name) {
    if (buffer == nullptr) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(std::optional<std::string> change, buffer->CheckGuards());
    if (change) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, *change);
    return absl::OkStatus();
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    FETTLE_RETURN_IF_ERROR(check(tensors_[i].get(), TensorLabel(case_.tensors[i], case_)));
  }
  for (std::size_t i = 0; i < workspace_.size(); ++i) {
    FETTLE_RETURN_IF_ERROR(check(workspace_[i].get(), "workspace " + workspace_spec_[i].name));
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (!tables_[i]) continue;
    FETTLE_RETURN_IF_ERROR(check(tables_[i].get(), "table of " + case_.pointers[i].name));
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tables_[i]->size_bytes()));
    FETTLE_RETURN_IF_ERROR(tables_[i]->Read(bytes));
    if (bytes != AddressBytes(PointerAddresses(static_cast<std::int64_t>(i)))) {
      text += fmt::format("{}the pointer table of {} was changed", text.empty() ? "" : "; ",
                          case_.pointers[i].name);
    }
  }
  if (text.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

absl::Status CaseBuffers::WriteGuards() {
  for (const auto* list : {&tensors_, &workspace_, &tables_}) {
    for (const auto& buffer : *list) {
      if (buffer) FETTLE_RETURN_IF_ERROR(buffer->WriteGuards());
    }
  }
  return absl::OkStatus();
}

bool CaseBuffers::at_page_end() const {
  bool any = false;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool output =
        case_.tensors[i].role == Role::kOut || case_.tensors[i].role == Role::kInOut;
    if (!output || !tensors_[i] || tensors_[i]->size_bytes() == 0) continue;
    if (!tensors_[i]->at_page_end()) return false;
    any = true;
  }
  return any;
}

std::uint64_t CaseBuffers::TensorAddress(std::int64_t index, std::int64_t offset) const {
  const auto& buffer = tensors_[Index(index)];
  if (!buffer) return 0;
  const DType dtype = case_.tensors[Index(index)].dtype;
  return buffer->address() + static_cast<std::uint64_t>(StorageBytes(dtype, offset));
}

std::uint64_t CaseBuffers::WorkspaceAddress(std::int64_t index, std::int64_t offset) const {
  const DType dtype = workspace_spec_[Index(index)].dtype;
  return workspace_[Index(index)]->address() +
         static_cast<std::uint64_t>(StorageBytes(dtype, offset));
}

std::uint64_t CaseBuffers::TableAddress(std::int64_t index) const {
  return tables_[Index(index)] ? tables_[Index(index)]->address() : 0;
}

std::vector<std::uint64_t> CaseBuffers::PointerAddresses(std::int64_t index) const {
  const BoundPointers& pointers = case_.pointers[Index(index)];
  std::vector<std::uint64_t> addresses;
  for (std::int64_t i = 0; i < pointers.count; ++i) {
    addresses.push_back(TensorAddress(pointers.first + i));
  }
  return addresses;
}

}  // namespace fettle
