// SPDX-License-Identifier: Apache-2.0
#include "device/prepared_call.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

KernelArgument AddressArgument(std::uint64_t address) {
  KernelArgument bytes(sizeof(address));
  std::memcpy(bytes.data(), &address, sizeof(address));
  return bytes;
}

// The vendor's code stays at the front of the message.
absl::Status At(const absl::Status& status, const std::string& place) {
  return absl::Status(status.code(), fmt::format("{} ({})", std::string(status.message()), place));
}

}  // namespace

absl::StatusOr<PreparedCall> PreparedCall::Create(Device& device, DeviceModule& module,
                                                  const std::map<std::string, std::string>& symbols,
                                                  const BoundPlan& plan, CaseBuffers& buffers) {
  PreparedCall call;
  call.device_ = &device;
  call.module_ = &module;
  for (std::size_t i = 0; i < plan.workspace.size(); ++i) {
    if (!plan.workspace[i].zero) continue;
    GuardedBuffer& workspace = buffers.workspace(static_cast<std::int64_t>(i));
    if (workspace.size_bytes() == 0) continue;
    Step step;
    step.kind = BoundStep::Kind::kFill;
    step.label = "zero of workspace " + plan.workspace[i].name;
    step.target = {&workspace.buffer(), workspace.offset()};
    step.byte_count = workspace.size_bytes();
    call.steps_.push_back(std::move(step));
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const BoundStep& from = plan.steps[i];
    Step step;
    step.kind = from.kind;
    step.label = fmt::format("launch step {}", i);
    if (from.kind == BoundStep::Kind::kKernel) {
      step.label += fmt::format(" ({})", from.entry);
      const auto symbol = symbols.find(from.entry);
      if (symbol == symbols.end()) {
        return absl::InvalidArgumentError(fmt::format("{}: no symbol for this entry", step.label));
      }
      step.symbol = symbol->second;
      step.config = {from.grid, from.block, from.cluster, from.shared_bytes, from.cooperative};
      for (std::size_t a = 0; a < from.args.size(); ++a) {
        auto bytes = Bind(from.args[a], buffers);
        if (!bytes.ok()) return At(bytes.status(), fmt::format("{}, argument {}", step.label, a));
        step.arguments.push_back(*std::move(bytes));
      }
    } else {
      step.byte_count = from.byte_count;
      step.fill_byte = from.fill_byte;
      if (step.byte_count == 0) continue;
      auto target = BindRange(from.target, from.byte_count, buffers);
      if (!target.ok()) return At(target.status(), step.label);
      step.target = *target;
      if (from.kind == BoundStep::Kind::kCopy) {
        auto source = BindRange(from.source, from.byte_count, buffers);
        if (!source.ok()) return At(source.status(), step.label);
        step.source = *source;
      }
    }
    call.steps_.push_back(std::move(step));
  }
  return call;
}

absl::StatusOr<KernelArgument> PreparedCall::Bind(const BoundArg& arg, const CaseBuffers& buffers) {
  switch (arg.kind) {
    case BoundArg::Kind::kTensor:
      return AddressArgument(buffers.TensorAddress(arg.index, arg.offset));
    case BoundArg::Kind::kWorkspace:
      return AddressArgument(buffers.WorkspaceAddress(arg.index, arg.offset));
    case BoundArg::Kind::kPointers:
      return AddressArgument(buffers.TableAddress(arg.index));
    case BoundArg::Kind::kNull:
      return AddressArgument(0);
    case BoundArg::Kind::kValue:
      return arg.bytes;
    case BoundArg::Kind::kTensorMap:
      return absl::UnimplementedError("tensor maps are not supported on this device");
    case BoundArg::Kind::kStruct:
      break;
  }
  KernelArgument bytes = arg.bytes;
  for (const auto& [at, field] : arg.fields) {
    KernelArgument value;
    const bool table_inside =
        field.kind == BoundArg::Kind::kPointers &&
        buffers.bound_case().pointers[static_cast<std::size_t>(field.index)].in_struct;
    if (table_inside) {
      for (const std::uint64_t address : buffers.PointerAddresses(field.index)) {
        const KernelArgument one = AddressArgument(address);
        value.insert(value.end(), one.begin(), one.end());
      }
    } else {
      FETTLE_ASSIGN_OR_RETURN(value, Bind(field, buffers));
    }
    if (at < 0 ||
        at + static_cast<std::int64_t>(value.size()) > static_cast<std::int64_t>(bytes.size())) {
      return absl::InvalidArgumentError(
          fmt::format("field of {} bytes at {} does not fit the struct of {} bytes", value.size(),
                      at, bytes.size()));
    }
    std::copy(value.begin(), value.end(), bytes.begin() + at);
  }
  return bytes;
}

absl::StatusOr<PreparedCall::Range> PreparedCall::BindRange(const BoundArg& arg,
                                                            std::int64_t byte_count,
                                                            CaseBuffers& buffers) {
  GuardedBuffer* buffer = nullptr;
  std::uint64_t address = 0;
  if (arg.kind == BoundArg::Kind::kTensor) {
    buffer = buffers.tensor(arg.index);
    address = buffers.TensorAddress(arg.index, arg.offset);
  } else if (arg.kind == BoundArg::Kind::kWorkspace) {
    buffer = &buffers.workspace(arg.index);
    address = buffers.WorkspaceAddress(arg.index, arg.offset);
  }
  if (buffer == nullptr) {
    return absl::InvalidArgumentError("fill and copy need a tensor or workspace that is not null");
  }
  const auto within = static_cast<std::int64_t>(address - buffer->address());
  if (arg.offset < 0 || byte_count < 0 || within + byte_count > buffer->size_bytes()) {
    return absl::InvalidArgumentError(fmt::format("{} bytes at byte {} pass the buffer's {} bytes",
                                                  byte_count, within, buffer->size_bytes()));
  }
  return Range{&buffer->buffer(), buffer->offset() + within};
}

absl::Status PreparedCall::Enqueue() {
  for (const Step& step : steps_) {
    absl::Status status;
    switch (step.kind) {
      case BoundStep::Kind::kKernel:
        status = device_->Launch(*module_, step.symbol, step.config, step.arguments);
        break;
      case BoundStep::Kind::kFill:
        status =
            device_->Fill(*step.target.buffer, step.target.offset, step.byte_count, step.fill_byte);
        break;
      case BoundStep::Kind::kCopy:
        status = device_->CopyDevice(*step.target.buffer, step.target.offset, *step.source.buffer,
                                     step.source.offset, step.byte_count);
        break;
    }
    if (!status.ok()) return At(status, step.label);
  }
  return absl::OkStatus();
}

std::int64_t PreparedCall::kernel_count() const {
  return std::count_if(steps_.begin(), steps_.end(),
                       [](const Step& step) { return step.kind == BoundStep::Kind::kKernel; });
}

}  // namespace fettle
