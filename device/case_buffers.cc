// SPDX-License-Identifier: Apache-2.0
#include "device/case_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/random.h"
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

std::string Hex(const DeviceDigest& digest) {
  return fmt::format("{:016x}{:016x}", digest[0], digest[1]);
}

bool IsInput(const BoundTensor& tensor) {
  return !tensor.is_null && tensor.role != Role::kOut && tensor.role != Role::kInOut;
}

std::string DigestBytes(const std::vector<std::uint8_t>& bytes) {
  return Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
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
  Random places = Random::For({options.key, options.place});
  std::uint64_t place = places.Next();
  const std::uint64_t stride =
      places.Next() | 1;  // Odd: kScatterPlaces buffers, each another place.
  const auto allocate = [&](DType dtype, std::int64_t size, std::int64_t align,
                            Placement placement) -> absl::StatusOr<std::unique_ptr<GuardedBuffer>> {
    GuardOptions one = options;
    one.placement = placement;
    one.place = place += stride;
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
    const std::int64_t size = StorageBytes(one.dtype, one.count);
    auto buffer = allocate(one.dtype, size, /*align=*/256, placement);
    // A workspace that no empty device of this size could hold is the kernel's own mistake. Else
    // somebody else uses the memory.
    if (absl::IsResourceExhausted(buffer.status()) &&
        size > device.info().memory_bytes / 2 - result.size_bytes()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: workspace {} of {} bytes", std::string(buffer.status().message()), one.name, size));
    }
    FETTLE_RETURN_IF_ERROR(buffer.status());
    result.workspace_.push_back(*std::move(buffer));
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
  return total;
}

absl::Status CaseBuffers::WriteInputs(std::shared_ptr<const CaseImages> images,
                                      const std::vector<bool>& but) {
  written_ = std::move(images);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i < but.size() && but[i]) continue;
    const DeviceBuffer* image = written_->tensor(static_cast<std::int64_t>(i));
    if (image == nullptr) continue;
    GuardedBuffer& to = *tensors_[i];
    FETTLE_RETURN_IF_ERROR(
        device_->CopyDevice(to.buffer(), to.offset(), *image, 0, to.size_bytes()));
  }
  return absl::OkStatus();
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
  if (written_ == nullptr) return absl::OkStatus();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    for (const auto& [offset, size] : written_->ranges(index)) {
      GuardedBuffer& to = *tensors_[i];
      FETTLE_RETURN_IF_ERROR(device_->CopyDevice(to.buffer(), to.offset() + offset,
                                                 *written_->tensor(index), offset, size));
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

std::vector<std::pair<const GuardedBuffer*, std::string>> CaseBuffers::AllBuffers() const {
  std::vector<std::pair<const GuardedBuffer*, std::string>> all;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i]) all.emplace_back(tensors_[i].get(), TensorLabel(case_.tensors[i], case_));
  }
  for (std::size_t i = 0; i < workspace_.size(); ++i) {
    all.emplace_back(workspace_[i].get(), "workspace " + workspace_spec_[i].name);
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i]) all.emplace_back(tables_[i].get(), "table of " + case_.pointers[i].name);
  }
  return all;
}

absl::StatusOr<CaseDigests> CaseBuffers::Digests(const Looks& looks, std::uint64_t key,
                                                 std::chrono::nanoseconds limit) const {
  CaseDigests result;
  std::vector<DeviceRange> ranges;
  std::vector<std::string*> found;  // Where the digest of each range goes.
  const auto add = [&](const GuardedBuffer& buffer, std::string* into) {
    ranges.push_back({&buffer.buffer(), buffer.offset(), buffer.size_bytes()});
    found.push_back(into);
  };
  result.inputs = std::vector<std::string>(looks.inputs ? tensors_.size() : 0);
  const auto outputs = std::count_if(case_.tensors.begin(), case_.tensors.end(), IsOutput);
  result.outputs = std::vector<std::string>(looks.outputs ? static_cast<std::size_t>(outputs) : 0);
  std::size_t output = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const BoundTensor& tensor = case_.tensors[i];
    if (looks.inputs && IsInput(tensor)) add(*tensors_[i], &result.inputs[i]);
    if (!looks.outputs || !IsOutput(tensor)) continue;
    std::string& into = result.outputs[output++];
    if (IsDense(tensor)) {
      add(*tensors_[i], &into);
      continue;
    }
    FETTLE_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> dense,
                            ReadDense(static_cast<std::int64_t>(i)));
    into = DigestBytes(dense);
  }
  std::vector<std::pair<const GuardedBuffer*, GuardBand>> bands;
  if (looks.guards && options_.patterns != nullptr) {
    for (const auto& [buffer, name] : AllBuffers()) {
      for (const GuardBand& band : buffer->bands()) {
        bands.emplace_back(buffer, band);
        ranges.push_back({&buffer->buffer(), band.offset, band.size_bytes});
      }
    }
  }
  const auto digests = device_->Digests(ranges, key, limit);
  if (absl::IsUnimplemented(digests.status())) return DigestsOfBytes(looks);
  FETTLE_RETURN_IF_ERROR(digests.status());
  for (std::size_t i = 0; i < found.size(); ++i) *found[i] = Hex((*digests)[i]);
  if (!looks.guards) return result;
  bool intact = options_.patterns != nullptr;
  for (std::size_t i = 0; i < bands.size() && intact; ++i) {
    const auto& [buffer, band] = bands[i];
    FETTLE_ASSIGN_OR_RETURN(
        const DeviceDigest want,
        options_.patterns->DigestOf(buffer->dtype(), band.stream, band.size_bytes, key, limit));
    intact = (*digests)[found.size() + i] == want;
  }
  // The bytes tell what changed.
  FETTLE_ASSIGN_OR_RETURN(result.guard_violation, intact ? CheckTables() : CheckGuards());
  return result;
}

absl::StatusOr<CaseDigests> CaseBuffers::DigestsOfBytes(const Looks& looks) const {
  CaseDigests result;
  result.inputs.resize(looks.inputs ? tensors_.size() : 0);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (looks.inputs && IsInput(case_.tensors[i])) {
      FETTLE_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> memory, ReadMemory(index));
      result.inputs[i] = DigestBytes(memory);
    }
    if (looks.outputs && IsOutput(case_.tensors[i])) {
      FETTLE_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> dense, ReadDense(index));
      result.outputs.push_back(DigestBytes(dense));
    }
  }
  if (looks.guards) {
    FETTLE_ASSIGN_OR_RETURN(result.guard_violation, CheckGuards());
  }
  return result;
}

absl::StatusOr<std::optional<std::string>> CaseBuffers::CheckTables() const {
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (!tables_[i]) continue;
    const std::vector<std::uint64_t> wanted = PointerAddresses(static_cast<std::int64_t>(i));
    std::vector<std::uint64_t> held(wanted.size());
    FETTLE_RETURN_IF_ERROR(tables_[i]->Read(
        {reinterpret_cast<std::uint8_t*>(held.data()), held.size() * sizeof(std::uint64_t)}));
    if (held != wanted) {
      return std::optional(
          fmt::format("the pointer table of {} was changed", case_.pointers[i].name));
    }
  }
  return std::optional<std::string>();
}

absl::StatusOr<std::optional<std::string>> CaseBuffers::CheckGuards() const {
  std::string text;
  for (const auto& [buffer, name] : AllBuffers()) {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<std::string> change, buffer->CheckGuards());
    if (change) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, *change);
  }
  FETTLE_ASSIGN_OR_RETURN(const std::optional<std::string> table, CheckTables());
  if (table) text += (text.empty() ? "" : "; ") + *table;
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
