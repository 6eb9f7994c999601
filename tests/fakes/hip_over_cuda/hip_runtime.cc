// SPDX-License-Identifier: Apache-2.0
// Test only: the HIP runtime calls that fettle uses, forwarded to the CUDA driver, so that the
// `hip` device, its timing and its error paths run on an NVIDIA GPU. It calls itself a gfx950, and
// is loaded with FETTLE_HIP_LIBRARY. Nothing here says anything about AMD hardware.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include "kernels_ptx.h"

namespace {

using Handle = void*;
using Address = unsigned long long;

// A driver function by name; aborts when there is no CUDA driver, because nothing works then.
template <typename F>
F Cuda(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* symbol = driver == nullptr ? nullptr : dlsym(driver, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "hip_over_cuda: no %s in libcuda.so.1\n", name);
    std::abort();
  }
  return reinterpret_cast<F>(symbol);
}

constexpr int kNoDevice = 100, kInvalidValue = 1;

// HIP's attribute numbers and CUDA's for the same.
int CudaAttribute(int hip) {
  static const std::map<int, int> kNumbers{
      {56, 1},  {26, 2},  {27, 3},  {28, 4},  {29, 5},  {30, 6},  {31, 7},  {74, 97},
      {87, 10}, {63, 16}, {71, 12}, {19, 38}, {69, 50}, {67, 33}, {68, 34}, {10, 95}};
  const auto found = kNumbers.find(hip);
  return found == kNumbers.end() ? 0 : found->second;
}

bool IsAmdObject(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  constexpr unsigned char kAmdgpuMachine = 224;
  return std::memcmp(bytes, "\177ELF", 4) == 0 && bytes[18] == kAmdgpuMachine;
}

}  // namespace

extern "C" {

#define FORWARD(hip, cuda, parameters, arguments) \
  int hip parameters { return Cuda<int(*) parameters>(cuda) arguments; }

int hipInit(unsigned flags) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return kNoDevice;
  return Cuda<int (*)(unsigned)>("cuInit")(flags);
}
FORWARD(hipGetDeviceCount, "cuDeviceGetCount", (int* n), (n))
FORWARD(hipDeviceGet, "cuDeviceGet", (int* device, int index), (device, index))
FORWARD(hipDeviceGetName, "cuDeviceGetName", (char* name, int size, int device),
        (name, size, device))
FORWARD(hipDeviceGetUuid, "cuDeviceGetUuid_v2", (char* uuid, int device), (uuid, device))
FORWARD(hipDeviceTotalMem, "cuDeviceTotalMem_v2", (std::size_t * bytes, int device),
        (bytes, device))
FORWARD(hipFree, "cuMemFree_v2", (Address p), (p))
FORWARD(hipMalloc, "cuMemAlloc_v2", (Address * p, std::size_t size), (p, size))
FORWARD(hipMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",
        (Address to, const void* from, std::size_t size, Handle stream), (to, from, size, stream))
FORWARD(hipMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",
        (void* to, Address from, std::size_t size, Handle stream), (to, from, size, stream))
FORWARD(hipMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",
        (Address to, Address from, std::size_t size, Handle stream), (to, from, size, stream))
FORWARD(hipMemsetD8Async, "cuMemsetD8Async",
        (Address to, unsigned char byte, std::size_t size, Handle stream), (to, byte, size, stream))
FORWARD(hipModuleUnload, "cuModuleUnload", (Handle module), (module))
FORWARD(hipModuleGetFunction, "cuModuleGetFunction",
        (Handle * function, Handle module, const char* name), (function, module, name))
FORWARD(hipModuleGetGlobal, "cuModuleGetGlobal_v2",
        (Address * address, std::size_t* size, Handle module, const char* name),
        (address, size, module, name))
FORWARD(hipFuncGetAttribute, "cuFuncGetAttribute", (int* value, int attribute, Handle function),
        (value, attribute, function))
FORWARD(hipStreamCreateWithFlags, "cuStreamCreate", (Handle * stream, unsigned flags),
        (stream, flags))
FORWARD(hipStreamDestroy, "cuStreamDestroy_v2", (Handle stream), (stream))
FORWARD(hipStreamQuery, "cuStreamQuery", (Handle stream), (stream))
FORWARD(hipStreamBeginCapture, "cuStreamBeginCapture_v2", (Handle stream, int mode), (stream, mode))
FORWARD(hipStreamEndCapture, "cuStreamEndCapture", (Handle stream, Handle* graph), (stream, graph))
FORWARD(hipGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",
        (Handle * executable, Handle graph, unsigned long long flags), (executable, graph, flags))
FORWARD(hipGraphLaunch, "cuGraphLaunch", (Handle executable, Handle stream), (executable, stream))
FORWARD(hipGraphDestroy, "cuGraphDestroy", (Handle graph), (graph))
FORWARD(hipGraphExecDestroy, "cuGraphExecDestroy", (Handle executable), (executable))
FORWARD(hipEventCreateWithFlags, "cuEventCreate", (Handle * event, unsigned flags), (event, flags))
FORWARD(hipEventDestroy, "cuEventDestroy_v2", (Handle event), (event))
FORWARD(hipEventRecord, "cuEventRecord", (Handle event, Handle stream), (event, stream))
FORWARD(hipEventElapsedTime, "cuEventElapsedTime", (float* ms, Handle from, Handle to),
        (ms, from, to))

int hipRuntimeGetVersion(int* version) {
  *version = 70253211;
  return 0;
}

int hipDeviceGetAttribute(int* value, int attribute, int device) {
  const int number = CudaAttribute(attribute);
  if (number == 0) return kInvalidValue;
  return Cuda<int (*)(int*, int, int)>("cuDeviceGetAttribute")(value, number, device);
}

// As hipDeviceProp_t of ROCm 6 and 7 lays it out: the architecture's name is all that fettle reads.
int hipGetDevicePropertiesR0600(void* properties, int) {
  constexpr std::size_t kArchOffset = 1160, kSize = 1472;
  std::memset(properties, 0, kSize);
  std::strcpy(static_cast<char*>(properties) + kArchOffset, "gfx950:sramecc+:xnack-");
  return 0;
}

int hipSetDevice(int device) {
  Handle context = nullptr;
  const int code = Cuda<int (*)(Handle*, int)>("cuDevicePrimaryCtxRetain")(&context, device);
  return code != 0 ? code : Cuda<int (*)(Handle)>("cuCtxSetCurrent")(context);
}

// fettle's calibration kernel comes as an AMD object; the same kernel as PTX stands in for it.
int hipModuleLoadData(Handle* module, const void* image) {
  const void* real = IsAmdObject(image) ? static_cast<const void*>(kKernelsPtx) : image;
  return Cuda<int (*)(Handle*, const void*)>("cuModuleLoadData")(module, real);
}

int hipModuleLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, Handle stream,
                          void** parameters, void** extra) {
  constexpr unsigned kWithoutOptIn = 48 * 1024;
  constexpr int kMaxDynamicShared = 8;
  if (shared > kWithoutOptIn) {  // HIP asks for no opt-in.
    const int code = Cuda<int (*)(Handle, int, int)>("cuFuncSetAttribute")(
        function, kMaxDynamicShared, static_cast<int>(shared));
    if (code != 0) return code;
  }
  using Launch = int (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Handle, void**, void**);
  return Cuda<Launch>("cuLaunchKernel")(function, gx, gy, gz, bx, by, bz, shared, stream,
                                        parameters, extra);
}

int hipModuleLaunchCooperativeKernel(Handle function, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     Handle stream, void** parameters) {
  using Launch = int (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Handle, void**);
  return Cuda<Launch>("cuLaunchCooperativeKernel")(function, gx, gy, gz, bx, by, bz, shared, stream,
                                                   parameters);
}

const char* hipGetErrorName(int code) {
  switch (code) {
    case 0:
      return "hipSuccess";
    case 1:
      return "hipErrorInvalidValue";
    case 2:
      return "hipErrorOutOfMemory";
    case 100:
      return "hipErrorNoDevice";
    case 200:
      return "hipErrorInvalidImage";
    case 500:
      return "hipErrorNotFound";
    case 600:
      return "hipErrorNotReady";
    case 700:
      return "hipErrorIllegalAddress";
    case 719:
      return "hipErrorLaunchFailure";
    default:
      return "hipErrorUnknown";
  }
}

}  // extern "C"
