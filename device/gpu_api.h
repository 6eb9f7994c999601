// SPDX-License-Identifier: Apache-2.0
#pragma once

// The part of the CUDA driver API and of the HIP runtime that a device uses, found by dlopen. HIP
// copies the driver API's signatures, so that one table serves both; what differs is hidden in the
// four functions at the end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

// Opaque handles of either vendor.
using GpuHandle = void*;

// X(slot, CUDA symbol, HIP symbol, required, parameters). Symbols without a counterpart are "".
#define FETTLE_GPU_FUNCTIONS(X)                                                                    \
  X(init, "cuInit", "hipInit", true, (unsigned))                                                   \
  X(driver_version, "cuDriverGetVersion", "hipRuntimeGetVersion", true, (int*))                    \
  X(device_count, "cuDeviceGetCount", "hipGetDeviceCount", true, (int*))                           \
  X(device_get, "cuDeviceGet", "hipDeviceGet", true, (int*, int))                                  \
  X(device_name, "cuDeviceGetName", "hipDeviceGetName", true, (char*, int, int))                   \
  X(device_uuid, "cuDeviceGetUuid_v2", "hipDeviceGetUuid", false, (char*, int))                    \
  X(device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute", true, (int*, int, int))     \
  X(device_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem", true, (std::size_t*, int))          \
  X(context_retain, "cuDevicePrimaryCtxRetain", "", false, (GpuHandle*, int))                      \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", "", false, (int))                             \
  X(context_set, "cuCtxSetCurrent", "", false, (GpuHandle))                                        \
  X(device_set, "", "hipSetDevice", false, (int))                                                  \
  X(reset_persisting, "cuCtxResetPersistingL2Cache", "", false, ())                                \
  X(memory_alloc, "cuMemAlloc_v2", "hipMalloc", true, (std::uint64_t*, std::size_t))               \
  X(memory_free, "cuMemFree_v2", "hipFree", true, (std::uint64_t))                                 \
  X(copy_in, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", true,                                   \
    (std::uint64_t, const void*, std::size_t, GpuHandle))                                          \
  X(copy_out, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", true,                                  \
    (void*, std::uint64_t, std::size_t, GpuHandle))                                                \
  X(copy_device, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", true,                               \
    (std::uint64_t, std::uint64_t, std::size_t, GpuHandle))                                        \
  X(fill, "cuMemsetD8Async", "hipMemsetD8Async", true,                                             \
    (std::uint64_t, unsigned char, std::size_t, GpuHandle))                                        \
  X(module_load, "cuModuleLoadData", "hipModuleLoadData", true, (GpuHandle*, const void*))         \
  X(module_unload, "cuModuleUnload", "hipModuleUnload", true, (GpuHandle))                         \
  X(module_function, "cuModuleGetFunction", "hipModuleGetFunction", true,                          \
    (GpuHandle*, GpuHandle, const char*))                                                          \
  X(module_global, "cuModuleGetGlobal_v2", "hipModuleGetGlobal", true,                             \
    (std::uint64_t*, std::size_t*, GpuHandle, const char*))                                        \
  X(function_attribute, "cuFuncGetAttribute", "hipFuncGetAttribute", true, (int*, int, GpuHandle)) \
  X(function_set, "cuFuncSetAttribute", "", false, (GpuHandle, int, int))                          \
  X(function_parameter, "cuFuncGetParamInfo", "", false,                                           \
    (GpuHandle, std::size_t, std::size_t*, std::size_t*))                                          \
  X(launch, "cuLaunchKernel", "hipModuleLaunchKernel", true,                                       \
    (GpuHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, GpuHandle,   \
     void**, void**))                                                                              \
  X(launch_cooperative, "cuLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernel", false,    \
    (GpuHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, GpuHandle,   \
     void**))                                                                                      \
  X(launch_extended, "cuLaunchKernelEx", "", false, (const void*, GpuHandle, void**, void**))      \
  X(stream_create, "cuStreamCreate", "hipStreamCreateWithFlags", true, (GpuHandle*, unsigned))     \
  X(stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy", true, (GpuHandle))                   \
  X(stream_query, "cuStreamQuery", "hipStreamQuery", true, (GpuHandle))                            \
  X(capture_begin, "cuStreamBeginCapture_v2", "hipStreamBeginCapture", false, (GpuHandle, int))    \
  X(capture_end, "cuStreamEndCapture", "hipStreamEndCapture", false, (GpuHandle, GpuHandle*))      \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", false,       \
    (GpuHandle*, GpuHandle, unsigned long long))                                                   \
  X(graph_launch, "cuGraphLaunch", "hipGraphLaunch", false, (GpuHandle, GpuHandle))                \
  X(graph_destroy, "cuGraphDestroy", "hipGraphDestroy", false, (GpuHandle))                        \
  X(graph_exec_destroy, "cuGraphExecDestroy", "hipGraphExecDestroy", false, (GpuHandle))           \
  X(event_create, "cuEventCreate", "hipEventCreateWithFlags", true, (GpuHandle*, unsigned))        \
  X(event_destroy, "cuEventDestroy_v2", "hipEventDestroy", true, (GpuHandle))                      \
  X(event_record, "cuEventRecord", "hipEventRecord", true, (GpuHandle, GpuHandle))                 \
  X(event_elapsed, "cuEventElapsedTime", "hipEventElapsedTime", true,                              \
    (float*, GpuHandle, GpuHandle))

// Result codes that both vendors share.
inline constexpr int kGpuSuccess = 0;
inline constexpr int kGpuNotFound = 500;
inline constexpr int kGpuNotReady = 600;

// Function attributes that both vendors share.
inline constexpr int kGpuMaxThreads = 0;
inline constexpr int kGpuStaticShared = 1;
inline constexpr int kGpuLocalBytes = 3;
inline constexpr int kGpuRegisters = 4;
inline constexpr int kGpuMaxDynamicShared = 8;

// What a device says of itself, under the vendor's own attribute numbers.
struct GpuAttributes {
  int max_threads, block_x, grid_x;  // The y and z limits follow at +1 and +2.
  int shared_bytes, shared_bytes_opt_in;
  int warp, multiprocessors, registers, l2_bytes;
  int pci_domain, pci_bus, pci_device;
  int cooperative, cluster;  // 0: the vendor has no such attribute.
};

// One vendor's library. Function pointers are null where the library lacks an optional one.
class GpuApi {
 public:
  // dlopens the first library found: the file named by FETTLE_CUDA_LIBRARY or FETTLE_HIP_LIBRARY,
  // else the vendor's own names, newest first. kUnavailable names what was tried.
  static absl::StatusOr<std::unique_ptr<GpuApi>> Load(Vendor vendor);

  Vendor vendor() const { return vendor_; }
  const std::string& library() const { return library_; }
  const GpuAttributes& attributes() const;

  // "CUDA_ERROR_ILLEGAL_ADDRESS (700)".
  std::string ErrorName(int code) const;
  // OK, or the code's class as device.h lists them: "CUDA_ERROR_...(700): <doing what>".
  absl::Status Check(int code, std::string_view doing) const;
  // The architecture that `device` runs: "sm_90a", "gfx950".
  absl::StatusOr<std::string> Architecture(int device) const;

#define FETTLE_GPU_SLOT(slot, cuda, hip, required, parameters) int(*slot) parameters = nullptr;
  FETTLE_GPU_FUNCTIONS(FETTLE_GPU_SLOT)
#undef FETTLE_GPU_SLOT

 private:
  GpuApi() = default;
  absl::Status Bind(void* handle);

  Vendor vendor_ = Vendor::kNvidia;
  std::string library_;
  int (*cuda_error_name_)(int, const char**) = nullptr;
  const char* (*hip_error_name_)(int) = nullptr;
  int (*hip_properties_)(void*, int) = nullptr;
  std::size_t hip_arch_offset_ = 0;  // Of gcnArchName in what hip_properties_ fills.
};

}  // namespace fettle
