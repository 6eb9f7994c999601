// SPDX-License-Identifier: Apache-2.0
// Both vendors' entry points without a GPU: records launches and fails on demand.
//   FAKE_GPU_FAIL   init | device | context | load | symbol | launch
//   FAKE_GPU_MAX_THREADS   most threads of a block, of the CUDA device
//   FAKE_GPU_CC     compute capability, "90" by default
//   FAKE_GPU_ARCH   HIP architecture, "gfx950:sramecc+:xnack-" by default
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Module {
  std::string name;
  std::atomic<int> references{0};
};
struct Function {
  Module* module;
  std::string symbol;
};
struct Launch {
  const char* symbol;  // The function's, which is never freed.
  unsigned grid[3], block[3], shared;
  void* stream;
  std::uint64_t first;  // The first parameter's eight bytes.
};

std::mutex mutex;
// Guarded by mutex. Reserved, so that recording a launch allocates nothing.
std::vector<Launch> launches = [] {
  std::vector<Launch> reserved;
  reserved.reserve(1 << 14);
  return reserved;
}();
std::string loaded;                // Guarded by mutex; the latest image.
std::vector<Function*> functions;  // Guarded by mutex; never freed.
std::atomic<int> modules_loaded{0}, modules_unloaded{0}, opt_ins{0}, fills{0};
thread_local int current_device = 0;

bool Fails(const char* what) {
  const char* named = std::getenv("FAKE_GPU_FAIL");
  return named != nullptr && std::strcmp(named, what) == 0;
}

// `image` is text in tests.
int Load(void** module, const void* image) {
  if (Fails("load")) return 209;
  *module = new Module;
  const std::lock_guard<std::mutex> lock(mutex);
  loaded = std::string(static_cast<const char*>(image)).substr(0, 199);
  modules_loaded.fetch_add(1);
  return 0;
}
int Find(void** function, void* module, const char* symbol) {
  if (Fails("symbol")) return 500;
  const std::lock_guard<std::mutex> lock(mutex);
  functions.push_back(new Function{static_cast<Module*>(module), symbol});
  *function = functions.back();
  return 0;
}
int Enqueue(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
            unsigned bz, unsigned shared, void* stream, void** parameters) {
  if (Fails("launch")) return 701;
  Launch launch{static_cast<Function*>(function)->symbol.c_str(),
                {gx, gy, gz},
                {bx, by, bz},
                shared,
                stream,
                0};
  if (parameters[0] != nullptr) std::memcpy(&launch.first, parameters[0], 8);
  const std::lock_guard<std::mutex> lock(mutex);
  launches.push_back(launch);
  return 0;
}

}  // namespace

extern "C" {

// For tests.
void fake_gpu_set_device(int device) { current_device = device; }
int fake_gpu_launch_count() {
  const std::lock_guard<std::mutex> lock(mutex);
  return static_cast<int>(launches.size());
}
int fake_gpu_modules() { return modules_loaded.load() - modules_unloaded.load(); }
int fake_gpu_opt_ins() { return opt_ins.load(); }
void fake_gpu_loaded(char* image) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::snprintf(image, 200, "%s", loaded.c_str());
}
unsigned long fake_gpu_last_stream() {
  const std::lock_guard<std::mutex> lock(mutex);
  return launches.empty() ? 0 : reinterpret_cast<unsigned long>(launches.back().stream);
}
int fake_gpu_last(char* symbol, unsigned* numbers, std::uint64_t* first) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (launches.empty()) return 0;
  const Launch& last = launches.back();
  std::snprintf(symbol, 200, "%s", last.symbol);
  for (int i = 0; i < 3; ++i) {
    numbers[i] = last.grid[i];
    numbers[3 + i] = last.block[i];
  }
  numbers[6] = last.shared;
  *first = last.first;
  return 1;
}

// CUDA.
int cuInit(unsigned) { return Fails("init") ? 999 : 0; }
int cuCtxGetDevice(int* device) {
  *device = current_device;
  return Fails("device") ? 201 : 0;
}
int cuCtxGetCurrent(void** context) {
  *context = Fails("context") ? nullptr : reinterpret_cast<void*>(0x1000);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const char* text = std::getenv("FAKE_GPU_CC");
  const int capability = text == nullptr ? 90 : std::atoi(text);
  switch (attribute) {
    case 75:
      *value = capability / 10;
      break;
    case 76:
      *value = capability % 10;
      break;
    case 16:
      *value = 132;
      break;
    case 1: {
      const char* most = std::getenv("FAKE_GPU_MAX_THREADS");
      *value = most == nullptr ? 1024 : std::atoi(most);
      break;
    }
    case 97:
      *value = 227 * 1024;
      break;
    case 2:
    case 3:
      *value = 1024;
      break;
    case 4:
      *value = 64;
      break;
    case 5:
      *value = 2147483647;
      break;
    case 6:
    case 7:
      *value = 65535;
      break;
    default:
      *value = 0;
  }
  return 0;
}
int cuModuleLoadData(void** module, const void* image) { return Load(module, image); }
// Libraries, which newer drivers have, load as modules do.
int cuLibraryLoadData(void** library, const void* image, void*, void*, unsigned, void*, void*,
                      unsigned) {
  return Load(library, image);
}
int cuLibraryUnload(void*) {
  modules_unloaded.fetch_add(1);
  return 0;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* symbol) {
  return Find(kernel, library, symbol);
}
int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return 0;
}
int cuModuleUnload(void*) {
  modules_unloaded.fetch_add(1);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* symbol) {
  return Find(function, module, symbol);
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  *value = attribute == 0 ? 1024 : 0;
  return 0;
}
int cuFuncSetAttribute(void*, int, int) {
  opt_ins.fetch_add(1);
  return 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void**) {
  return Enqueue(function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}
int cuMemsetD8Async(std::uint64_t, unsigned char, std::size_t, void*) {
  fills.fetch_add(1);
  return 0;
}
int cuMemcpyDtoDAsync_v2(std::uint64_t, std::uint64_t, std::size_t, void*) { return 0; }

// HIP.
int hipInit(unsigned) { return Fails("init") ? 999 : 0; }
int hipGetDevice(int* device) {
  *device = current_device;
  return Fails("device") ? 100 : 0;
}
int hipDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 63:
      *value = 256;
      break;
    case 56:
      *value = 1024;
      break;
    case 74:
      *value = 160 * 1024;
      break;
    case 26:
    case 27:
    case 28:
      *value = 1024;
      break;
    case 29:
      *value = 2147483647;
      break;
    case 30:
    case 31:
      *value = 65535;
      break;
    default:
      *value = 0;
  }
  return 0;
}
int hipGetDevicePropertiesR0600(void* properties, int) {
  const char* arch = std::getenv("FAKE_GPU_ARCH");
  std::strcpy(static_cast<char*>(properties) + 1160,
              arch == nullptr ? "gfx950:sramecc+:xnack-" : arch);
  return 0;
}
int hipModuleLoadData(void** module, const void* image) { return Load(module, image); }
int hipModuleUnload(void*) {
  modules_unloaded.fetch_add(1);
  return 0;
}
int hipModuleGetFunction(void** function, void* module, const char* symbol) {
  return Find(function, module, symbol);
}
int hipFuncGetAttribute(int* value, int attribute, void*) {
  *value = attribute == 0 ? 1024 : 0;
  return 0;
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void* stream,
                          void** parameters, void**) {
  return Enqueue(function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}
int hipMemsetD8Async(std::uint64_t, unsigned char, std::size_t, void*) {
  fills.fetch_add(1);
  return 0;
}
int hipMemcpyDtoDAsync(std::uint64_t, std::uint64_t, std::size_t, void*) { return 0; }

}  // extern "C"
