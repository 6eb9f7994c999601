// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_module.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/code_object/elf.h"
#include "core/code_object/msgpack.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::int64_t kSharedWithoutOptIn = 48 * 1024;
constexpr std::uint64_t kPadding = 64;  // Between variables of one section, at most, in bytes.
constexpr int kNonPortableCluster = 14;
constexpr std::int64_t kPortableCluster = 8;

// cuLaunchKernelEx's structures, as cuda.h lays them out since 11.8.
struct LaunchAttribute {
  unsigned id;
  unsigned pad;
  unsigned value[16];
};
static_assert(sizeof(LaunchAttribute) == 72);
struct ExtendedConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  GpuHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(ExtendedConfig) == 56);
constexpr unsigned kAttributeCooperative = 2, kAttributeCluster = 4;

unsigned U(std::int64_t value) { return static_cast<unsigned>(value); }

std::vector<std::int64_t> CudaParameters(const GpuApi& api, GpuHandle function) {
  std::vector<std::int64_t> sizes;
  if (api.function_parameter == nullptr) return sizes;
  constexpr std::size_t kMost = 4096;
  std::size_t offset = 0, size = 0;
  while (sizes.size() < kMost &&
         api.function_parameter(function, sizes.size(), &offset, &size) == kGpuSuccess) {
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  return sizes;
}

// Explicit parameters only: the compiler appends hidden ones of its own.
std::map<std::string, std::vector<std::int64_t>, std::less<>> AmdParameters(
    std::string_view image) {
  std::map<std::string, std::vector<std::int64_t>, std::less<>> all;
  const auto elf = ReadElf(AsBytes(image));
  if (!elf.ok() || elf->machine != kElfMachineAmdgpu) return all;
  const auto metadata = ReadAmdMetadata(*elf);
  const MsgpackValue* kernels = metadata.ok() ? metadata->Find("amdhsa.kernels") : nullptr;
  if (kernels == nullptr) return all;
  for (const MsgpackValue& kernel : kernels->items) {
    std::vector<std::int64_t>& sizes = all[kernel.Text(".name")];
    const MsgpackValue* arguments = kernel.Find(".args");
    if (arguments == nullptr) continue;
    for (const MsgpackValue& argument : arguments->items) {
      if (argument.Text(".value_kind").starts_with("hidden_")) continue;
      sizes.push_back(argument.Number(".size", 0));
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuModule>> GpuModule::Load(
    std::shared_ptr<GpuDevice::Shared> shared, std::string_view image,
    std::span<const std::string> symbols) {
  std::unique_ptr<GpuModule> module(new GpuModule(std::move(shared)));
  const GpuApi& api = *module->shared_->api;
  // A terminating zero, because PTX is text to the driver.
  const std::string text(image);
  FETTLE_RETURN_IF_ERROR(api.Check(api.module_load(&module->handle_, text.c_str()),
                                   fmt::format("load a code object of {} bytes", image.size())));
  module->writable_globals_ = WritableGlobalsOf(AsBytes(image));
  module->parameter_bytes_ = AmdParameters(image);
  for (const std::string& symbol : symbols) {
    FETTLE_RETURN_IF_ERROR(module->Find(symbol).status());
  }
  return module;
}

absl::StatusOr<std::int64_t> GpuModule::SaveState() {
  const GpuApi& api = *shared_->api;
  FreeState();
  std::vector<SavedSpan> variables;
  for (const std::string& name : writable_globals_) {
    SavedSpan variable;
    const int found = api.module_global(&variable.address, &variable.size, handle_, name.c_str());
    if (found != kGpuSuccess) {
      return absl::InvalidArgumentError(
          fmt::format("module variable {} keeps state between calls and cannot be reset; use a "
                      "workspace instead, or a variable that is not static",
                      name));
    }
    if (variable.size > 0) variables.push_back(variable);
  }
  std::sort(variables.begin(), variables.end(),
            [](const SavedSpan& x, const SavedSpan& y) { return x.address < y.address; });
  std::int64_t bytes = 0;
  for (const SavedSpan& variable : variables) {
    bytes += static_cast<std::int64_t>(variable.size);
    // Neighbours are brought back by one copy; what lies between is padding of their section.
    const bool joins = !state_.empty() &&
                       variable.address <= state_.back().address + state_.back().size + kPadding;
    if (!joins) {
      state_.push_back(variable);
      continue;
    }
    SavedSpan& last = state_.back();
    last.size = std::max(last.address + last.size, variable.address + variable.size) - last.address;
  }
  // Where the driver keeps neighbours in different allocations, each is copied by itself.
  if (!CopyState().ok()) {
    FreeState();
    state_ = std::move(variables);
    FETTLE_RETURN_IF_ERROR(CopyState());
  }
  return bytes;
}

absl::Status GpuModule::CopyState() {
  const GpuApi& api = *shared_->api;
  for (SavedSpan& saved : state_) {
    FETTLE_RETURN_IF_ERROR(api.Check(api.memory_alloc(&saved.image, saved.size),
                                     fmt::format("save {} bytes of module variables", saved.size)));
    FETTLE_RETURN_IF_ERROR(
        api.Check(api.copy_device(saved.image, saved.address, saved.size, shared_->stream),
                  fmt::format("save module variables of {} bytes", saved.size)));
  }
  return absl::OkStatus();
}

absl::Status GpuModule::RestoreState() {
  const GpuApi& api = *shared_->api;
  for (const SavedSpan& saved : state_) {
    FETTLE_RETURN_IF_ERROR(
        api.Check(api.copy_device(saved.address, saved.image, saved.size, shared_->stream),
                  "reset module variables"));
  }
  return absl::OkStatus();
}

void GpuModule::FreeState() {
  for (const SavedSpan& saved : state_) {
    if (saved.image != 0 && shared_->broken.ok()) shared_->api->memory_free(saved.image);
  }
  state_.clear();
}

GpuModule::~GpuModule() {
  FreeState();
  if (handle_ != nullptr && shared_->broken.ok()) shared_->api->module_unload(handle_);
}

absl::StatusOr<FunctionInfo> GpuModule::Function(std::string_view symbol) {
  FETTLE_ASSIGN_OR_RETURN(const GpuFunction* const function, Find(symbol));
  return function->info;
}

absl::StatusOr<GpuFunction*> GpuModule::Find(std::string_view symbol) {
  if (const auto found = functions_.find(symbol); found != functions_.end()) return &found->second;
  const GpuApi& api = *shared_->api;
  GpuFunction function;
  function.info.symbol = std::string(symbol);
  const int code = api.module_function(&function.handle, handle_, function.info.symbol.c_str());
  FETTLE_RETURN_IF_ERROR(api.Check(code, fmt::format("find {} in the code object", symbol)));
  const auto attribute = [&](int which) -> std::int64_t {
    int value = 0;
    return api.function_attribute(&value, which, function.handle) == kGpuSuccess ? value : 0;
  };
  function.info.static_shared_bytes = attribute(kGpuStaticShared);
  function.info.registers = attribute(kGpuRegisters);
  function.info.local_bytes = attribute(kGpuLocalBytes);
  function.info.max_threads = attribute(kGpuMaxThreads);
  if (const auto known = parameter_bytes_.find(symbol); known != parameter_bytes_.end()) {
    function.info.parameter_bytes = known->second;
  } else {
    function.info.parameter_bytes = CudaParameters(api, function.handle);
  }
  return &functions_.emplace(std::string(symbol), std::move(function)).first->second;
}

absl::Status OptInShared(const GpuApi& api, std::int64_t bytes, GpuFunction& function) {
  if (api.function_set == nullptr || bytes <= function.dynamic_shared_opt_in ||
      bytes + function.info.static_shared_bytes <= kSharedWithoutOptIn) {
    return absl::OkStatus();
  }
  FETTLE_RETURN_IF_ERROR(
      api.Check(api.function_set(function.handle, kGpuMaxDynamicShared, static_cast<int>(bytes)),
                fmt::format("allow {} {} bytes of shared memory", function.info.symbol, bytes)));
  function.dynamic_shared_opt_in = bytes;
  return absl::OkStatus();
}

int LaunchFunction(const GpuApi& api, GpuFunction& function, const LaunchConfig& config,
                   std::span<const KernelArgument> arguments, GpuHandle stream) {
  std::vector<void*> parameters;
  parameters.reserve(arguments.size());
  // The driver only reads them.
  for (const KernelArgument& a : arguments) {
    parameters.push_back(const_cast<std::uint8_t*>(a.data()));
  }
  const auto& [gx, gy, gz] = config.grid;
  const auto& [bx, by, bz] = config.block;
  if (config.cluster[0] > 0) {
    constexpr int kNotSupported = 801;
    if (api.launch_extended == nullptr) return kNotSupported;
    std::array<unsigned, 3> cluster{};
    std::int64_t blocks = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      cluster[i] = U(std::max<std::int64_t>(1, config.cluster[i]));
      blocks *= cluster[i];
    }
    if (blocks > kPortableCluster && !function.large_cluster) {
      const int code = api.function_set(function.handle, kNonPortableCluster, 1);
      if (code != kGpuSuccess) return code;
      function.large_cluster = true;
    }
    LaunchAttribute attributes[2] = {{kAttributeCluster, 0, {cluster[0], cluster[1], cluster[2]}},
                                     {kAttributeCooperative, 0, {1}}};
    const ExtendedConfig extended{{U(gx), U(gy), U(gz)},
                                  {U(bx), U(by), U(bz)},
                                  U(config.shared_bytes),
                                  stream,
                                  attributes,
                                  config.cooperative ? 2U : 1U};
    return api.launch_extended(&extended, function.handle, parameters.data(), nullptr);
  }
  if (config.cooperative) {
    constexpr int kNotSupported = 801;
    if (api.launch_cooperative == nullptr) return kNotSupported;
    return api.launch_cooperative(function.handle, U(gx), U(gy), U(gz), U(bx), U(by), U(bz),
                                  U(config.shared_bytes), stream, parameters.data());
  }
  return api.launch(function.handle, U(gx), U(gy), U(gz), U(bx), U(by), U(bz),
                    U(config.shared_bytes), stream, parameters.data(), nullptr);
}

}  // namespace fettle
