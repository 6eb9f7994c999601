// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_api.h"

#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr GpuAttributes kCudaAttributes{.max_threads = 1,
                                        .block_x = 2,
                                        .grid_x = 5,
                                        .shared_bytes = 8,
                                        .shared_bytes_opt_in = 97,
                                        .warp = 10,
                                        .multiprocessors = 16,
                                        .registers = 82,
                                        .l2_bytes = 38,
                                        .pci_domain = 50,
                                        .pci_bus = 33,
                                        .pci_device = 34,
                                        .cooperative = 95,
                                        .cluster = 120};

// The numbers are the same in HIP 5.2 and 7.2. HIP has no opt-in: the limit is one.
constexpr GpuAttributes kHipAttributes{.max_threads = 56,
                                       .block_x = 26,
                                       .grid_x = 29,
                                       .shared_bytes = 74,
                                       .shared_bytes_opt_in = 74,
                                       .warp = 87,
                                       .multiprocessors = 63,
                                       .registers = 71,
                                       .l2_bytes = 19,
                                       .pci_domain = 69,
                                       .pci_bus = 67,
                                       .pci_device = 68,
                                       .cooperative = 10,
                                       .cluster = 0};

// Offsets of gcnArchName in hipDeviceProp_t: before ROCm 6 and since.
constexpr std::size_t kArchOffsetOld = 396, kArchOffsetR0600 = 1160;
constexpr std::size_t kPropertiesBytes = 4096;  // More than any version's structure.

constexpr int kComputeMajor = 75, kComputeMinor = 76;

// The class of a code. CUDA's and HIP's numbers agree for all of these.
absl::StatusCode ClassOf(int code) {
  switch (code) {
    case 2:
      return absl::StatusCode::kResourceExhausted;
    case kGpuNotFound:
      return absl::StatusCode::kNotFound;
    case 3:    // not initialized
    case 4:    // driver shutting down
    case 34:   // stub library
    case 46:   // device busy or in exclusive use
    case 100:  // no device
    case 101:  // invalid device
    case 214:  // uncorrectable ECC error: the board's fault, not the kernel's
    case 802:  // system not ready
    case 803:  // driver mismatch
    case 804:
      return absl::StatusCode::kUnavailable;
    case 700:  // illegal address
    case 702:  // launch timeout
    case 710:  // assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
    case 999:  // unknown
      return absl::StatusCode::kAborted;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

std::vector<std::string> LibraryNames(Vendor vendor) {
  const bool nvidia = vendor == Vendor::kNvidia;
  const char* named = std::getenv(nvidia ? "FETTLE_CUDA_LIBRARY" : "FETTLE_HIP_LIBRARY");
  if (named != nullptr && *named != '\0') return {named};
  if (nvidia) return {"libcuda.so.1"};
  return {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
          "/opt/rocm/lib/libamdhip64.so"};
}

template <typename F>
void BindTo(F& slot, void* handle, const char* name) {
  slot = reinterpret_cast<F>(dlsym(handle, name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuApi>> GpuApi::Load(Vendor vendor) {
  std::string reasons;
  for (const std::string& name : LibraryNames(vendor)) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : name);
      continue;
    }
    // The library stays loaded for the life of the process: drivers do not survive dlclose.
    std::unique_ptr<GpuApi> api(new GpuApi);
    api->vendor_ = vendor;
    api->library_ = name;
    FETTLE_RETURN_IF_ERROR(api->Bind(handle));
    return api;
  }
  return absl::UnavailableError(
      fmt::format("load the {} driver: {}", vendor == Vendor::kNvidia ? "CUDA" : "HIP", reasons));
}

absl::Status GpuApi::Bind(void* handle) {
  const bool nvidia = vendor_ == Vendor::kNvidia;
  std::string missing;
  const auto bind = [&](auto& slot, const char* cuda, const char* hip, bool required) {
    const char* name = nvidia ? cuda : hip;
    if (*name != '\0') BindTo(slot, handle, name);
    if (slot == nullptr && required) missing = name;
  };
#define FETTLE_GPU_BIND(slot, cuda, hip, required, parameters) bind(slot, cuda, hip, required);
  FETTLE_GPU_FUNCTIONS(FETTLE_GPU_BIND)
#undef FETTLE_GPU_BIND
  if (nvidia) {
    BindTo(cuda_error_name_, handle, "cuGetErrorName");
    if (context_retain == nullptr || context_set == nullptr) missing = "cuDevicePrimaryCtxRetain";
  } else {
    BindTo(hip_error_name_, handle, "hipGetErrorName");
    BindTo(hip_properties_, handle, "hipGetDevicePropertiesR0600");
    hip_arch_offset_ = kArchOffsetR0600;
    if (hip_properties_ == nullptr) {
      BindTo(hip_properties_, handle, "hipGetDeviceProperties");
      hip_arch_offset_ = kArchOffsetOld;
    }
    if (hip_properties_ == nullptr || device_set == nullptr) missing = "hipGetDeviceProperties";
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("load {}: it lacks {}; install a newer driver", library_, missing));
}

const GpuAttributes& GpuApi::attributes() const {
  return vendor_ == Vendor::kNvidia ? kCudaAttributes : kHipAttributes;
}

std::string GpuApi::ErrorName(int code) const {
  const char* name = nullptr;
  if (cuda_error_name_ != nullptr) {
    if (cuda_error_name_(code, &name) != kGpuSuccess) name = nullptr;
  } else if (hip_error_name_ != nullptr) {
    name = hip_error_name_(code);
  }
  return fmt::format("{} ({})", name == nullptr ? "unknown error" : name, code);
}

absl::Status GpuApi::Check(int code, std::string_view doing) const {
  if (code == kGpuSuccess) return absl::OkStatus();
  const std::string message = fmt::format("{}: {}", ErrorName(code), doing);
  return absl::Status(ClassOf(code), message);
}

absl::StatusOr<std::string> GpuApi::Architecture(int device) const {
  if (vendor_ == Vendor::kAmd) {
    std::vector<char> properties(kPropertiesBytes, '\0');
    FETTLE_RETURN_IF_ERROR(Check(hip_properties_(properties.data(), device), "device properties"));
    const char* name = properties.data() + hip_arch_offset_;
    const std::string full(name, strnlen(name, 256));
    return full.substr(0, full.find(':'));  // "gfx90a:sramecc+:xnack-"
  }
  int major = 0, minor = 0;
  FETTLE_RETURN_IF_ERROR(Check(device_attribute(&major, kComputeMajor, device), "capability"));
  FETTLE_RETURN_IF_ERROR(Check(device_attribute(&minor, kComputeMinor, device), "capability"));
  // The architecture-specific set ('a': wgmma, tcgen05) exists from 9.0 on.
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

}  // namespace fettle
