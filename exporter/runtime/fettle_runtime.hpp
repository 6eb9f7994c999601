// SPDX-License-Identifier: Apache-2.0
//
// Loads and dispatches the kernels of exported bundles. C++17, header only; needs the C++ standard
// library, <dlfcn.h> and threads. GPU libraries are found by dlopen, so a program that includes this
// starts on machines without them. No exceptions, no RTTI.
//
// A call allocates nothing, synchronises with nothing and launches on the caller's own stream in the
// caller's own context, so it can be captured into a graph once prepare() has loaded the objects.
// Every function is thread-safe unless it says otherwise.
#ifndef FETTLE_RUNTIME_1_HPP
#define FETTLE_RUNTIME_1_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <fettle/expr.hpp>

namespace fettle {
inline namespace runtime_1 {

using fettle_expr::Checked;

enum class Backend : int { kCpu = 0, kCuda = 1, kHip = 2 };
inline const char* backend_name(Backend backend) {
  return backend == Backend::kCuda ? "cuda" : backend == Backend::kHip ? "hip" : "cpu";
}

// Element types; kAny where a view does not say.
enum class DType : signed char {
  kAny = -1, f64, f32, f16, bf16, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1x2, i64, i32, i16, i8, u8,
  boolean
};
inline const char* dtype_name(DType dtype) {
  static const char* const names[] = {"f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
                                      "f8e8m0", "f4e2m1x2", "i64", "i32", "i16", "i8", "u8", "bool"};
  return dtype == DType::kAny ? "any" : names[static_cast<int>(dtype)];
}
inline std::int64_t dtype_size(DType dtype) {
  static const signed char sizes[] = {8, 4, 2, 2, 1, 1, 1, 1, 1, 1, 8, 4, 2, 1, 1, 1};
  return dtype == DType::kAny ? 1 : sizes[static_cast<int>(dtype)];
}

// A tensor argument. Only the address is needed; what else is given is checked against the operator.
template <class T>
struct View {
  T* data = nullptr;
  DType dtype = DType::kAny;
  int rank = -1;                           // -1: not given; the caller vouches for the shape.
  const std::int64_t* sizes = nullptr;     // `rank` extents.
  const std::int64_t* strides = nullptr;   // In elements; null: dense, row-major.

  View() = default;
  View(T* address) : data(address) {}  // NOLINT: a pointer is a view.
  View(T* address, DType type, int dims, const std::int64_t* extents, const std::int64_t* steps)
      : data(address), dtype(type), rank(dims), sizes(extents), strides(steps) {}
};

// A list of numbers in host memory.
struct HostList {
  const std::int64_t* data = nullptr;
  std::int64_t count = 0;
};

// An array of tensors.
struct Pointers {
  void* const* device = nullptr;  // Table of addresses in device memory, where the kernel reads one.
  void* const* host = nullptr;    // The same in host memory, where the launch needs single addresses.
  std::int64_t count = 0;
};

// Where a call goes. The handle is the vendor's stream (null: its default stream); unused on the CPU.
struct Stream {
  Backend backend;
  void* handle;
};
inline Stream cpu() { return {Backend::kCpu, nullptr}; }
inline Stream cuda(void* stream) { return {Backend::kCuda, stream}; }
inline Stream hip(void* stream) { return {Backend::kHip, stream}; }

// Scratch memory on the device, aligned to 256 bytes; its contents are undefined before and after.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

enum class Status : int {
  kOk,
  kNothingToDo,   // No output element exists; nothing was launched.
  kBadArgument,   // The call breaks the operator's contract; nothing was launched.
  kNotPrepared,   // prepare() has not loaded this device.
  kUnavailable,   // No driver, no device, or no context.
  kUnsupported,   // Neither a variant nor the fallback takes this call.
  kNoWorkspace,   // Workspace is missing or too small; see workspace_bytes().
  kDriverError    // The driver refused a launch; `code` is its own.
};
// How the kernel was chosen.
enum class Choice : int { kNone, kExact, kBucket, kGeneric, kFallback };
// Why it was not a better one.
enum class Why : int {
  kNone, kDisabled, kNoVariant, kOutsideTested, kMisaligned, kAliased, kNotBuilt, kLimits
};
inline const char* choice_name(Choice choice) {
  static const char* const names[] = {"none", "exact", "bucket", "generic", "fallback"};
  return names[static_cast<int>(choice)];
}
inline const char* why_name(Why why) {
  static const char* const names[] = {"", "disabled", "no_variant", "outside_tested", "misaligned", "aliased",
                                      "not_built", "limits"};
  return names[static_cast<int>(why)];
}

struct Result {
  Status status = Status::kOk;
  Choice choice = Choice::kNone;
  Why why = Why::kNone;
  const char* kernel = "";   // Id of the variant, or "baseline".
  const char* message = "";  // What is wrong, for a person; lives as long as the program.
  int code = 0;              // The driver's, with kDriverError.
  explicit operator bool() const { return status == Status::kOk || status == Status::kNothingToDo; }
};

// ------------------------------------------------------------------------------------- tables
// What a generated header says of its operator.

enum class Evidence : int { kRun, kEmulated, kCompiledOnly };

inline constexpr int kMaxFamilies = 4, kMaxTensors = 48, kMaxDevices = 64, kMaxOrder = 16;

struct TargetInfo {
  const char* name;  // "sm_90a", "gfx950", "cpu"
  Backend backend;
};
struct KernelInfo {
  const char* id;
};
struct BuildInfo {
  int kernel;
  int target;
  Evidence evidence;
  const char* types;             // One DType per family, as characters; see Spec::kFamilies.
  const std::int64_t* special;   // Values of the specialized dims, in their order.
  const char* path;              // Relative to the bundle.
  std::size_t bytes;
  const char* sha256;
  int entries;
  const char* const* symbols;
  bool waits;                    // cpu: a barrier or warp operation may be reached.
  const char* machine;           // cpu: the processor model that it was compiled for.
};
// An object within the program (CMake option FETTLE_EMBED_OBJECTS).
struct EmbeddedObject {
  const char* sha256;
  const unsigned char* begin;
  const unsigned char* end;
};

struct Limits {
  std::int64_t multiprocessors = 1, max_threads = 1024;
  std::int64_t block[3] = {1024, 1024, 64}, grid[3] = {2147483647, 65535, 65535};
  std::int64_t shared = 227 * 1024;
};

struct LoadedBuild {
  bool ok = false;
  const char* problem = "";
  void* module = nullptr;
  std::vector<void*> functions;
  std::vector<std::int64_t> threads, shared;  // Per function: most threads of a block, static shared bytes.
  bool waits = false;
};

// ------------------------------------------------------------------------------------- drivers

using Handle = void*;

// One vendor's library, or the CPU. Bound once per process, never unloaded: drivers do not survive it.
struct Driver {
  Backend backend = Backend::kCpu;
  const char* problem = nullptr;  // Null: usable.
  int (*init)(unsigned) = nullptr;
  int (*device_current)(int*) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*context_current)(Handle*) = nullptr;
  int (*module_load)(Handle*, const void*) = nullptr;
  int (*module_unload)(Handle) = nullptr;
  int (*module_function)(Handle*, Handle, const char*) = nullptr;
  int (*library_load)(Handle*, const void*, void*, void*, unsigned, void*, void*, unsigned) = nullptr;
  int (*library_unload)(Handle) = nullptr;
  int (*library_kernel)(Handle*, Handle, const char*) = nullptr;
  int (*kernel_function)(Handle*, Handle) = nullptr;
  int (*function_attribute)(int*, int, Handle) = nullptr;
  int (*function_set)(Handle, int, int) = nullptr;
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                void**) = nullptr;
  int (*launch_cooperative)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                            void**) = nullptr;
  int (*launch_extended)(const void*, Handle, void**, void**) = nullptr;
  int (*fill)(std::uint64_t, unsigned char, std::size_t, Handle) = nullptr;
  int (*copy)(std::uint64_t, std::uint64_t, std::size_t, Handle) = nullptr;
  int (*properties)(void*, int) = nullptr;
  std::size_t arch_offset = 0;
};

namespace detail {

template <class F>
void bind(F& slot, void* library, const char* name, const char** missing) {
  slot = reinterpret_cast<F>(dlsym(library, name));
  if (slot == nullptr && missing != nullptr) *missing = name;
}

inline void* open_library(const char* variable, const char* const* names) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  for (; *names != nullptr; ++names) {
    if (void* library = dlopen(*names, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

inline Driver open_cuda() {
  Driver d;
  d.backend = Backend::kCuda;
  static const char* const names[] = {"libcuda.so.1", nullptr};
  void* library = open_library("FETTLE_CUDA_LIBRARY", names);
  if (library == nullptr) {
    d.problem = "no CUDA driver: libcuda.so.1 cannot be loaded";
    return d;
  }
  const char* missing = nullptr;
  bind(d.init, library, "cuInit", &missing);
  bind(d.device_current, library, "cuCtxGetDevice", &missing);
  bind(d.context_current, library, "cuCtxGetCurrent", &missing);
  bind(d.device_attribute, library, "cuDeviceGetAttribute", &missing);
  bind(d.module_load, library, "cuModuleLoadData", &missing);
  bind(d.module_unload, library, "cuModuleUnload", &missing);
  bind(d.module_function, library, "cuModuleGetFunction", &missing);
  bind(d.function_attribute, library, "cuFuncGetAttribute", &missing);
  bind(d.function_set, library, "cuFuncSetAttribute", &missing);
  bind(d.launch, library, "cuLaunchKernel", &missing);
  bind(d.fill, library, "cuMemsetD8Async", &missing);
  bind(d.copy, library, "cuMemcpyDtoDAsync_v2", &missing);
  bind(d.library_load, library, "cuLibraryLoadData", nullptr);
  bind(d.library_unload, library, "cuLibraryUnload", nullptr);
  bind(d.library_kernel, library, "cuLibraryGetKernel", nullptr);
  bind(d.kernel_function, library, "cuKernelGetFunction", nullptr);
  bind(d.launch_cooperative, library, "cuLaunchCooperativeKernel", nullptr);
  bind(d.launch_extended, library, "cuLaunchKernelEx", nullptr);
  if (missing != nullptr) d.problem = "the CUDA driver lacks a function that is needed; install a newer one";
  if (d.problem == nullptr && d.init(0) != 0) d.problem = "the CUDA driver does not start (cuInit)";
  return d;
}

inline Driver open_hip() {
  Driver d;
  d.backend = Backend::kHip;
  static const char* const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                      "/opt/rocm/lib/libamdhip64.so", nullptr};
  void* library = open_library("FETTLE_HIP_LIBRARY", names);
  if (library == nullptr) {
    d.problem = "no HIP runtime: libamdhip64.so cannot be loaded";
    return d;
  }
  const char* missing = nullptr;
  bind(d.init, library, "hipInit", &missing);
  bind(d.device_current, library, "hipGetDevice", &missing);
  bind(d.device_attribute, library, "hipDeviceGetAttribute", &missing);
  bind(d.module_load, library, "hipModuleLoadData", &missing);
  bind(d.module_unload, library, "hipModuleUnload", &missing);
  bind(d.module_function, library, "hipModuleGetFunction", &missing);
  bind(d.function_attribute, library, "hipFuncGetAttribute", &missing);
  bind(d.launch, library, "hipModuleLaunchKernel", &missing);
  bind(d.fill, library, "hipMemsetD8Async", &missing);
  bind(d.copy, library, "hipMemcpyDtoDAsync", &missing);
  bind(d.launch_cooperative, library, "hipModuleLaunchCooperativeKernel", nullptr);
  bind(d.properties, library, "hipGetDevicePropertiesR0600", nullptr);
  d.arch_offset = 1160;  // Of gcnArchName in hipDeviceProp_t since ROCm 6; before, 396.
  if (d.properties == nullptr) {
    bind(d.properties, library, "hipGetDeviceProperties", &missing);
    d.arch_offset = 396;
  }
  if (missing != nullptr) d.problem = "the HIP runtime lacks a function that is needed; install a newer one";
  if (d.problem == nullptr && d.init(0) != 0) d.problem = "the HIP runtime does not start (hipInit)";
  return d;
}

// SHA-256, for objects read from files.
class Sha256 {
 public:
  void add(const unsigned char* data, std::size_t size) {
    total_ += size;
    while (size > 0) {
      const std::size_t room = 64 - held_;
      const std::size_t now = size < room ? size : room;
      std::memcpy(block_ + held_, data, now);
      held_ += now;
      data += now;
      size -= now;
      if (held_ == 64) {
        mix();
        held_ = 0;
      }
    }
  }
  std::string hex() {
    const std::uint64_t bits = total_ * 8;
    const unsigned char one = 0x80, zero = 0;
    add(&one, 1);
    while (held_ != 56) add(&zero, 1);
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
    add(length, 8);
    std::string text;
    for (const std::uint32_t word : state_) {
      char part[9];
      std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(word));
      text += part;
    }
    return text;
  }

 private:
  static std::uint32_t turn(std::uint32_t v, int n) { return v >> n | v << (32 - n); }
  void mix() {
    static const std::uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = static_cast<std::uint32_t>(block_[4 * i]) << 24 | static_cast<std::uint32_t>(block_[4 * i + 1]) << 16 |
             static_cast<std::uint32_t>(block_[4 * i + 2]) << 8 | block_[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    std::uint32_t s[8];
    std::memcpy(s, state_, sizeof s);
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      const std::uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int n = 7; n > 0; --n) s[n] = s[n - 1];
      s[4] += one;
      s[0] = one + two;
    }
    for (int i = 0; i < 8; ++i) state_[i] += s[i];
  }

  std::uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block_[64] = {};
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
};

// A whole file and a terminating zero (PTX is text to the driver); empty: it cannot be read.
inline std::vector<unsigned char> read_file(const std::string& path) {
  std::vector<unsigned char> bytes;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return bytes;
  unsigned char part[65536];
  for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
  std::fclose(file);
  bytes.push_back(0);
  return bytes;
}

// "gfx950:sramecc+:xnack-" runs "gfx950" and "gfx950:xnack-", not "gfx950:xnack+".
inline bool amd_runs(const std::string& device, const std::string& object) {
  const auto part = [](const std::string& text, std::size_t& at) {
    const std::size_t end = text.find(':', at);
    std::string out = text.substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    return out;
  };
  std::size_t at = 0, device_at = 0;
  if (part(object, at) != part(device, device_at)) return false;
  while (at < object.size()) {
    const std::string feature = ":" + part(object, at);
    if ((device + ":").find(feature + ":") == std::string::npos) return false;
  }
  return true;
}

// sm_90a runs on capability 9.0 alone, sm_90 on 9.x from 9.0, compute_90 (PTX) on every one from 9.0.
inline bool nvidia_runs(int major, int minor, const std::string& object) {
  if (object.compare(0, 8, "compute_") == 0) return std::atoi(object.c_str() + 8) <= 10 * major + minor;
  if (object.compare(0, 3, "sm_") != 0) return false;
  const int number = std::atoi(object.c_str() + 3);
  if (number / 10 != major) return false;
  const char last = object.back();
  if (last == 'a') return number % 10 == minor;
  return number % 10 <= minor;
}

inline std::string cpu_model() {
  std::string model = "x86-64 processor";
  std::FILE* file = std::fopen("/proc/cpuinfo", "r");
  if (file == nullptr) return model;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, "model name", 10) != 0) continue;
    const char* colon = std::strchr(line, ':');
    if (colon == nullptr || colon[1] == '\0') break;
    model = colon + 2;
    while (!model.empty() && (model.back() == '\n' || model.back() == ' ')) model.pop_back();
    break;
  }
  std::fclose(file);
  return model;
}

}  // namespace detail

inline const Driver& cuda_driver() {
  static const Driver driver = detail::open_cuda();
  return driver;
}
inline const Driver& hip_driver() {
  static const Driver driver = detail::open_hip();
  return driver;
}

// What <fettle/cpu_host.hpp> gives to run kernels on the CPU.
struct CpuHost {
  // Null on failure, with `*problem` set.
  void* (*load)(const unsigned char* bytes, std::size_t size, const char** problem);
  void (*unload)(void* module);
  void* (*function)(void* module, const char* symbol);
  int (*launch)(void* module, void* function, bool waits, const unsigned grid[3], const unsigned block[3],
                std::size_t shared, void** parameters);
};

// ------------------------------------------------------------------------------------- launching

// Checks the launches of one call, or enqueues them.
class Enqueue {
 public:
  // `build` may be null when dry: then the limits of `limits` alone count.
  Enqueue(const Driver* driver, const CpuHost* host, const Limits& limits, const LoadedBuild* build, Stream stream,
          bool dry)
      : driver_(driver), host_(host), limits_(limits), build_(build), stream_(stream), dry_(dry) {}

  Checked multiprocessors() const { return fettle_expr::Num(limits_.multiprocessors); }
  int code() const { return code_; }
  int launches() const { return launches_; }

  // The value of an expression as a kernel's parameter; false where it failed or does not fit.
  template <class T>
  static bool to(Checked value, T& out) {
    out = static_cast<T>(value.value);
    return value.ok && static_cast<std::int64_t>(out) == value.value;
  }
  static bool to(Checked value, bool& out) {
    out = value.value != 0;
    return value.ok && (value.value == 0 || value.value == 1);
  }
  static bool to(Checked value, float& out) {
    out = static_cast<float>(value.value);
    return value.ok;
  }
  static bool to(Checked value, double& out) {
    out = static_cast<double>(value.value);
    return value.ok;
  }

  // One launch. False: an expression failed, a limit is passed, or the driver refused (code()).
  bool kernel(int entry, const Checked (&grid)[3], const Checked (&block)[3], const Checked (&cluster)[3],
              bool clustered, Checked shared, bool cooperative, void** parameters) {
    unsigned g[3], b[3], c[3];
    std::int64_t threads = 1;
    for (int i = 0; i < 3; ++i) {
      if (!grid[i].ok || grid[i].value < 0) return false;
    }
    if (grid[0].value == 0 || grid[1].value == 0 || grid[2].value == 0) return true;
    for (int i = 0; i < 3; ++i) {
      if (!block[i].ok || block[i].value < 1 || block[i].value > limits_.block[i]) return false;
      if (grid[i].value > limits_.grid[i]) return false;
      // HIP counts threads along an axis in 32 bits.
      if (stream_.backend == Backend::kHip && grid[i].value * block[i].value >= std::int64_t{1} << 32) return false;
      if (clustered && (!cluster[i].ok || cluster[i].value < 1 || grid[i].value % cluster[i].value != 0)) return false;
      threads *= block[i].value;
      g[i] = static_cast<unsigned>(grid[i].value);
      b[i] = static_cast<unsigned>(block[i].value);
      c[i] = clustered ? static_cast<unsigned>(cluster[i].value) : 1;
    }
    std::int64_t most = limits_.max_threads, fixed = 0;
    if (build_ != nullptr) {
      const std::size_t at = static_cast<std::size_t>(entry);
      if (build_->threads[at] > 0 && build_->threads[at] < most) most = build_->threads[at];
      fixed = build_->shared[at];
    }
    if (threads > most || !shared.ok || shared.value < 0 || shared.value + fixed > limits_.shared) return false;
    if (clustered && stream_.backend != Backend::kCuda) return false;
    if (dry_) return true;
    ++launches_;
    return launch(build_->functions[static_cast<std::size_t>(entry)], g, b, c, clustered,
                  static_cast<unsigned>(shared.value), cooperative, parameters);
  }
  bool fill(void* target, Checked bytes, unsigned char byte) {
    if (!bytes.ok || bytes.value < 0) return false;
    if (dry_ || bytes.value == 0) return true;
    if (stream_.backend == Backend::kCpu) {
      std::memset(target, byte, static_cast<std::size_t>(bytes.value));
      return true;
    }
    code_ = driver_->fill(reinterpret_cast<std::uint64_t>(target), byte, static_cast<std::size_t>(bytes.value),
                          stream_.handle);
    return code_ == 0;
  }
  bool copy(void* target, const void* source, Checked bytes) {
    if (!bytes.ok || bytes.value < 0) return false;
    if (dry_ || bytes.value == 0) return true;
    if (stream_.backend == Backend::kCpu) {
      std::memmove(target, source, static_cast<std::size_t>(bytes.value));
      return true;
    }
    code_ = driver_->copy(reinterpret_cast<std::uint64_t>(target), reinterpret_cast<std::uint64_t>(source),
                          static_cast<std::size_t>(bytes.value), stream_.handle);
    return code_ == 0;
  }
  // An element's address; null stays null.
  static void* at(const void* base, Checked offset, std::int64_t size, bool& ok) {
    if (!offset.ok) ok = false;
    if (base == nullptr) return nullptr;
    return const_cast<unsigned char*>(static_cast<const unsigned char*>(base)) + offset.value * size;
  }

 private:
  bool launch(void* function, const unsigned* g, const unsigned* b, const unsigned* c, bool clustered, unsigned shared,
              bool cooperative, void** parameters) {
    constexpr int kNotSupported = 801;
    if (stream_.backend == Backend::kCpu) {
      code_ = host_->launch(build_->module, function, build_->waits, g, b, shared, parameters);
    } else if (clustered) {
      // cuLaunchKernelEx's structures since CUDA 11.8.
      struct Attribute { unsigned id, pad, value[16]; };
      struct Config { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned count; };
      static_assert(sizeof(Attribute) == 72 && sizeof(Config) == 56, "the layout of cuda.h");
      Attribute attributes[2] = {{4, 0, {c[0], c[1], c[2]}}, {2, 0, {1}}};
      Config config{{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, shared, stream_.handle, attributes, cooperative ? 2u : 1u};
      code_ = driver_->launch_extended == nullptr
                  ? kNotSupported : driver_->launch_extended(&config, function, parameters, nullptr);
    } else if (cooperative) {
      code_ = driver_->launch_cooperative == nullptr
                  ? kNotSupported
                  : driver_->launch_cooperative(function, g[0], g[1], g[2], b[0], b[1], b[2], shared, stream_.handle,
                                                parameters);
    } else {
      code_ = driver_->launch(function, g[0], g[1], g[2], b[0], b[1], b[2], shared, stream_.handle, parameters, nullptr);
    }
    return code_ == 0;
  }

  const Driver* driver_;
  const CpuHost* host_;
  const Limits& limits_;
  const LoadedBuild* build_;
  const Stream stream_;
  const bool dry_;
  int code_ = 0, launches_ = 0;
};

// Where workspace buffers lie within the caller's memory, each aligned to 256 bytes.
class Carver {
 public:
  Carver(void* base, std::size_t bytes) : base_(static_cast<unsigned char*>(base)), bytes_(bytes) {}
  // Null where there is no base. `ok()` tells whether all fitted.
  void* take(Checked bytes) {
    if (!bytes.ok || bytes.value < 0) {
      failed_ = true;
      return nullptr;
    }
    const std::size_t at = used_;
    const std::size_t size = (static_cast<std::size_t>(bytes.value) + 255) / 256 * 256;
    used_ += size;
    return base_ == nullptr || used_ > bytes_ ? nullptr : base_ + at;
  }
  std::size_t used() const { return used_; }
  bool failed() const { return failed_; }

 private:
  unsigned char* base_;
  std::size_t bytes_, used_ = 0;
  bool failed_ = false;
};

// What is known of a tensor of one call.
struct TensorFacts {
  const char* name;
  const void* data;
  Checked bytes;          // From the first to the last addressed byte.
  std::int64_t element;   // Bytes of one element.
  std::int64_t align;     // Alignment that variants were tested with.
  bool output, optional;
  DType wanted, given;
  int rank, given_rank;
  const Checked* sizes;
  const Checked* strides;
  const std::int64_t* given_sizes;
  const std::int64_t* given_strides;
};

struct Candidate {
  int kernel;
  Choice choice;
};
struct Candidates {
  Candidate list[3 * kMaxOrder];
  int count = 0;
  void add(const signed char* order, Choice choice) {
    for (; *order >= 0 && count < 3 * kMaxOrder; ++order) {
      bool seen = false;
      for (int i = 0; i < count; ++i) seen = seen || list[i].kernel == *order;
      if (!seen) list[count++] = {*order, choice};
    }
  }
};

struct Decision {
  int kernel = -1;  // Index into Spec::kKernels; -1: none.
  int build = -1;   // Index into Spec::kBuilds.
  Choice choice = Choice::kNone;
  Why why = Why::kNone;
};

// Counts since the operator was made.
struct Statistics {
  std::uint64_t exact = 0, bucket = 0, generic = 0, fallback = 0, refused = 0;
};

// ------------------------------------------------------------------------------------- operator

// The calls of one operator. `Spec` is generated. An object may serve several devices and threads;
// it must outlive calls in progress, and is not destroyed by static destructors unless it is static.
template <class Spec>
class Operator {
 public:
  using Types = typename Spec::Types;
  using Shape = typename Spec::Shape;
  using Args = typename Spec::Args;
  using Call = typename Spec::Call;
  // Called instead of the baseline where no variant takes a call, unless null.
  using Fallback = Status (*)(void* user, Stream, const Types&, const Shape&, const Args&);
  // A host's feature flag: true disables the kernel. Must be quick and thread-safe.
  using Disabled = bool (*)(void* user, const char* op, const char* kernel);

  Operator() { read_switches(); }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  // Loaded objects stay loaded: at the end of a program the driver may be gone. See unload().
  ~Operator() {
    for (auto& backend : slots_) {
      for (auto& slot : backend) delete slot.load(std::memory_order_acquire);
    }
  }

  // Where the bundle's files are. Default: FETTLE_OBJECT_ROOT, else the folder that was configured.
  void set_root(std::string root) { root_ = std::move(root); }
  // Lets objects serve that were compiled for a target but never ran on it, and ones that the program's
  // build compiled from source. Before prepare().
  void allow_compiled_only(bool allow) { compiled_only_ = allow; }
  void set_fallback(Fallback function, void* user) {
    fallback_user_ = user;
    fallback_.store(function, std::memory_order_release);
  }
  void set_disabled(Disabled function, void* user) {
    disabled_user_ = user;
    disabled_.store(function, std::memory_order_release);
  }
  // Reads FETTLE_DISABLE again: "op" or "op:variant", several separated by commas.
  void read_switches() {
    bool all = false;
    bool one[kKernels] = {};
    const char* text = std::getenv("FETTLE_DISABLE");
    for (const char* at = text; at != nullptr && *at != '\0';) {
      const char* comma = std::strchr(at, ',');
      const std::string word = comma == nullptr ? std::string(at) : std::string(at, comma);
      at = comma == nullptr ? nullptr : comma + 1;
      const std::size_t colon = word.find(':');
      if (word.substr(0, colon) != Spec::kName && word != "*") continue;
      if (colon == std::string::npos) all = true;
      for (int k = 0; colon != std::string::npos && k < kKernels; ++k) {
        one[k] = one[k] || word.substr(colon + 1) == Spec::kernels()[k].id;
      }
    }
    bool any = all;
    for (int k = 0; k < kKernels; ++k) {
      any = any || one[k];
      off_[k].store(one[k], std::memory_order_relaxed);
    }
    off_all_.store(all, std::memory_order_relaxed);
    off_any_.store(any, std::memory_order_release);
  }

  // Loads the objects for the current device of the backend (CUDA: of the current context). Call it
  // once per device before the first call and outside of graph capture; later calls do nothing.
  Result prepare(Backend backend) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Result result;
    const Driver* driver = nullptr;
    int ordinal = 0;
    if (!find_device(backend, driver, ordinal, result)) return result;
    auto& slot = slots_[static_cast<int>(backend)][ordinal];
    if (slot.load(std::memory_order_acquire) != nullptr) return result;
    std::unique_ptr<Device> device(new Device);
    device->ordinal = ordinal;
    if (!describe(backend, driver, ordinal, *device)) {
      return fail(Status::kUnsupported, "no object of this bundle is for this device");
    }
    int loaded = 0;
    device->builds.resize(static_cast<std::size_t>(kBuilds));
    for (int b = 0; b < kBuilds; ++b) {
      const BuildInfo& info = Spec::builds()[b];
      if (info.target != device->target) continue;
      if (info.evidence == Evidence::kCompiledOnly && !compiled_only_) continue;
      load(driver, info, *device, device->builds[static_cast<std::size_t>(b)]);
      if (device->builds[static_cast<std::size_t>(b)].ok) ++loaded;
      else result.message = device->builds[static_cast<std::size_t>(b)].problem;
    }
    if (loaded == 0) {
      return fail(Status::kUnsupported, *result.message != '\0'
                                            ? result.message
                                            : "all objects for this device are compiled_only; see allow_compiled_only()");
    }
    slot.store(device.release(), std::memory_order_release);
    return result;
  }

  // Gives the modules of all prepared devices back. No call may be in progress or come later without
  // another prepare(); the devices' contexts must still exist.
  void unload() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int b = 0; b < 3; ++b) {
      for (auto& slot : slots_[b]) {
        std::unique_ptr<Device> device(slot.exchange(nullptr, std::memory_order_acq_rel));
        if (device == nullptr) continue;
        for (LoadedBuild& build : device->builds) {
          if (!build.ok) continue;
          if (b == 0) Spec::cpu_host()->unload(build.module);
          else if (use_library(driver_of(static_cast<Backend>(b)))) driver_of(static_cast<Backend>(b)).library_unload(build.module);
          else driver_of(static_cast<Backend>(b)).module_unload(build.module);
        }
      }
    }
    forget();
  }

  // Bytes of workspace that a call of this shape needs on the current device, whichever of its
  // kernels is chosen and whatever its scalars are.
  std::size_t workspace_bytes(Backend backend, const Types& types, const Shape& shape) {
    const Args none{};
    if (!Spec::kScalars) return workspace_bytes(backend, types, shape, none);
    const Call call(types, shape, none);
    const Device* device = current(backend);
    const Limits limits = device != nullptr ? device->limits : Limits();
    const int target = device != nullptr ? device->target : target_of(backend);
    Candidates candidates;
    Spec::select(target, call, candidates);
    std::size_t most = bytes_of(kKernels - 1, call, limits);
    for (int i = 0; i < candidates.count; ++i) {
      const int kernel = candidates.list[i].kernel;
      if (!Spec::guard(kernel, call, limits, /*scalars=*/false) || find_build(device, target, kernel, call) < 0) continue;
      const std::size_t bytes = bytes_of(kernel, call, limits);
      if (bytes > most) most = bytes;
    }
    return most;
  }
  // The same for a call whose scalars are known. Of `args`, only they count.
  std::size_t workspace_bytes(Backend backend, const Types& types, const Shape& shape, const Args& args) {
    const Call call(types, shape, args);
    const Device* device = current(backend);
    const Limits limits = device != nullptr ? device->limits : Limits();
    const int target = device != nullptr ? device->target : target_of(backend);
    const Decision decision = decide(device, target, backend, call, /*counted=*/false);
    const std::size_t chosen = bytes_of(decision.kernel, call, limits), other = bytes_of(kKernels - 1, call, limits);
    return chosen > other ? chosen : other;
  }

  // Runs the operator on `stream`.
  Result operator()(Stream stream, const Types& types, const Shape& shape, const Args& args,
                    Workspace workspace = Workspace()) {
    Call call(types, shape, args);
    if (const char* problem = Spec::check(call)) return refuse(problem);
    TensorFacts tensors[kMaxTensors];
    const int count = Spec::tensors(call, tensors);
    bool empty = false, aligned = true;
    if (const char* problem = check_tensors(tensors, count, empty, aligned)) return refuse(problem);
    Result result;
    if (empty) {
      result.status = Status::kNothingToDo;
      return result;
    }
    const Device* device = current(stream.backend);
    if (device == nullptr) {
      return fail(Status::kNotPrepared, "prepare() has not loaded this device; call it before the first call");
    }
    Decision decision = decide(device, device->target, stream.backend, call, /*counted=*/true);
    if (decision.choice != Choice::kFallback && decision.kernel >= 0) {
      Why why = Why::kNone;
      if (!aligned) why = Why::kMisaligned;
      else if (aliased(tensors, count)) why = Why::kAliased;
      if (why != Why::kNone) decision = fallback(device, device->target, stream.backend, call, why);
    }
    return launch(device, stream, call, decision, workspace, types, shape, args);
  }

  // The decision for a call on a target by name, as if all of its objects were loaded and pointers
  // aligned and apart; launches nothing. For tests and tools.
  Decision choose(const char* target, const Types& types, const Shape& shape, const Args& args) {
    Call call(types, shape, args);
    for (int t = 0; t < kTargets; ++t) {
      if (std::strcmp(Spec::targets()[t].name, target) != 0) continue;
      if (Spec::check(call) != nullptr) return Decision();
      return decide(nullptr, t, Spec::targets()[t].backend, call, /*counted=*/true);
    }
    return Decision();
  }
  static const char* kernel_id(int kernel) { return kernel < 0 ? "" : Spec::kernels()[kernel].id; }

  Statistics statistics() const {
    Statistics s;
    s.exact = counts_[1].load(std::memory_order_relaxed);
    s.bucket = counts_[2].load(std::memory_order_relaxed);
    s.generic = counts_[3].load(std::memory_order_relaxed);
    s.fallback = counts_[4].load(std::memory_order_relaxed);
    s.refused = counts_[0].load(std::memory_order_relaxed);
    return s;
  }

  // One JSON line for each distinct shape that no exact choice served: input for tuning.
  std::string misses() const {
    std::string text;
    const unsigned used = used_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < used && i < kEntries; ++i) {
      const Entry& entry = entries_[i];
      if (!entry.ready.load(std::memory_order_acquire) || entry.decision.choice == Choice::kExact) continue;
      if (entry.calls.load(std::memory_order_relaxed) == 0) continue;  // Only asked for its workspace.
      text += std::string("{\"op\":\"") + Spec::kName + "\",\"target\":\"" + Spec::targets()[entry.target].name + "\",";
      text += Spec::describe(entry.key) + ",\"choice\":\"" + choice_name(entry.decision.choice) + "\",\"why\":\"" +
              why_name(entry.decision.why) + "\",\"kernel\":\"" + kernel_id(entry.decision.kernel) + "\",\"calls\":" +
              std::to_string(entry.calls.load(std::memory_order_relaxed)) + "}\n";
    }
    return text;
  }

 private:
  static constexpr int kKernels = Spec::kKernelCount, kBuilds = Spec::kBuildCount, kTargets = Spec::kTargetCount;
  static constexpr unsigned kEntries = 512, kTable = 1024;

  struct Device {
    int ordinal = 0, target = -1;
    Limits limits;
    std::vector<LoadedBuild> builds;
    std::string model;
  };
  // A decision that was made; never changes once ready.
  struct Entry {
    std::int64_t key[Spec::kKeySize] = {};
    const Device* device = nullptr;
    int target = 0;
    Decision decision;
    std::atomic<bool> ready{false};
    std::atomic<std::uint64_t> calls{0};
  };

  static Result fail(Status status, const char* message) {
    Result result;
    result.status = status;
    result.message = message;
    return result;
  }
  Result refuse(const char* message) {
    counts_[0].fetch_add(1, std::memory_order_relaxed);
    return fail(Status::kBadArgument, message);
  }

  static const Driver& driver_of(Backend backend) { return backend == Backend::kCuda ? cuda_driver() : hip_driver(); }
  static bool use_library(const Driver& driver) {
    return driver.library_load != nullptr && driver.library_kernel != nullptr && driver.kernel_function != nullptr &&
           driver.library_unload != nullptr;
  }
  static std::size_t bytes_of(int kernel, const Call& call, const Limits& limits) {
    if (kernel < 0) return 0;
    Carver carver(nullptr, 0);
    Spec::workspace(kernel, call, limits, carver);
    return carver.failed() ? 0 : carver.used();
  }
  static int target_of(Backend backend) {
    for (int t = 0; t < kTargets; ++t) {
      if (Spec::targets()[t].backend == backend) return t;
    }
    return 0;
  }

  static bool find_device(Backend backend, const Driver*& driver, int& ordinal, Result& result) {
    ordinal = 0;
    if (backend == Backend::kCpu) {
      if (Spec::cpu_host() != nullptr) return true;
      result = fail(Status::kUnsupported, "this bundle holds nothing for the CPU");
      return false;
    }
    driver = &driver_of(backend);
    if (driver->problem != nullptr) {
      result = fail(Status::kUnavailable, driver->problem);
      return false;
    }
    Handle context = nullptr;
    if (driver->context_current != nullptr && (driver->context_current(&context) != 0 || context == nullptr)) {
      result = fail(Status::kUnavailable, "no CUDA context is current; make one (cudaFree(0)) before prepare()");
      return false;
    }
    if (driver->device_current(&ordinal) != 0 || ordinal < 0 || ordinal >= kMaxDevices) {
      result = fail(Status::kUnavailable, "no device is current");
      return false;
    }
    return true;
  }
  const Device* current(Backend backend) const {
    int ordinal = 0;
    if (backend != Backend::kCpu) {
      const Driver& driver = driver_of(backend);
      if (driver.problem != nullptr || driver.device_current(&ordinal) != 0) return nullptr;
      if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
    }
    return slots_[static_cast<int>(backend)][ordinal].load(std::memory_order_acquire);
  }

  static std::int64_t attribute(const Driver* driver, int which, int ordinal, std::int64_t otherwise) {
    int value = 0;
    return driver->device_attribute(&value, which, ordinal) == 0 && value > 0 ? value : otherwise;
  }
  // Finds the target of the bundle that the device runs, and the device's limits.
  static bool describe(Backend backend, const Driver* driver, int ordinal, Device& device) {
    std::string name = "cpu";
    int major = 0, minor = 0;
    Limits& limits = device.limits;
    if (backend == Backend::kCpu) {
      limits.multiprocessors = Spec::cpu_cores();
      limits.block[2] = 1024;
      device.model = detail::cpu_model();
    } else if (backend == Backend::kCuda) {
      driver->device_attribute(&major, 75, ordinal);
      driver->device_attribute(&minor, 76, ordinal);
      limits.multiprocessors = attribute(driver, 16, ordinal, 1);
      limits.max_threads = attribute(driver, 1, ordinal, 1024);
      limits.shared = attribute(driver, 97, ordinal, 48 * 1024);
      for (int i = 0; i < 3; ++i) {
        limits.block[i] = attribute(driver, 2 + i, ordinal, limits.block[i]);
        limits.grid[i] = attribute(driver, 5 + i, ordinal, limits.grid[i]);
      }
    } else {
      // More than any version's structure; only the name is read.
      std::vector<char> properties(8192, '\0');
      if (driver->properties(properties.data(), ordinal) != 0) return false;
      name = std::string(properties.data() + driver->arch_offset);
      limits.multiprocessors = attribute(driver, 63, ordinal, 1);
      limits.max_threads = attribute(driver, 56, ordinal, 1024);
      limits.shared = attribute(driver, 74, ordinal, 64 * 1024);
      for (int i = 0; i < 3; ++i) {
        limits.block[i] = attribute(driver, 26 + i, ordinal, 1024);
        limits.grid[i] = attribute(driver, 29 + i, ordinal, limits.grid[i]);
      }
    }
    for (int t = 0; t < kTargets; ++t) {
      const TargetInfo& target = Spec::targets()[t];
      if (target.backend != backend) continue;
      const bool runs = backend == Backend::kCpu    ? true
                        : backend == Backend::kCuda ? detail::nvidia_runs(major, minor, target.name)
                                                    : detail::amd_runs(name, target.name);
      if (!runs) continue;
      device.target = t;
      return true;
    }
    return false;
  }

  std::string root() const {
    if (!root_.empty()) return root_;
    const char* named = std::getenv("FETTLE_OBJECT_ROOT");
    return named != nullptr && *named != '\0' ? named : Spec::default_root();
  }
  void load(const Driver* driver, const BuildInfo& info, const Device& device, LoadedBuild& build) const {
    build.waits = info.waits;
    if (driver == nullptr && device.model != info.machine && std::getenv("FETTLE_ALLOW_OTHER_CPU") == nullptr) {
      build.problem = "the object was compiled for another processor model";
      return;
    }
    std::vector<unsigned char> file;
    const unsigned char* bytes = nullptr;
    std::size_t size = 0;
    for (const EmbeddedObject* object = Spec::embedded(); object != nullptr && object->sha256 != nullptr; ++object) {
      if (std::strcmp(object->sha256, info.sha256) != 0) continue;
      bytes = object->begin;
      size = static_cast<std::size_t>(object->end - object->begin);
    }
    if (bytes == nullptr) {
      file = detail::read_file(root() + "/" + info.path);
      if (file.empty()) {
        build.problem = "an object file is missing; see set_root() and FETTLE_OBJECT_ROOT";
        return;
      }
      bytes = file.data();
      size = file.size() - 1;
    }
    detail::Sha256 sum;
    sum.add(bytes, size);
    if (size != info.bytes || sum.hex() != info.sha256) {
      // Objects of the program's own build never ran in any test; they serve as compiled_only ones do.
      if (!Spec::from_source()) {
        build.problem = "an object file is not the one that was tested: its SHA-256 differs";
        return;
      }
      if (!compiled_only_) {
        build.problem = "an object was built from source to other bytes than were tested; see allow_compiled_only()";
        return;
      }
    }
    if (driver == nullptr) load_cpu(info, bytes, size, build);
    else load_gpu(*driver, info, device, bytes, build);
  }
  static void load_cpu(const BuildInfo& info, const unsigned char* bytes, std::size_t size, LoadedBuild& build) {
    const CpuHost& host = *Spec::cpu_host();
    build.module = host.load(bytes, size, &build.problem);
    if (build.module == nullptr) return;
    for (int e = 0; e < info.entries; ++e) {
      void* function = host.function(build.module, info.symbols[e]);
      if (function == nullptr) {
        build.problem = "a symbol is missing in an object";
        host.unload(build.module);
        return;
      }
      build.functions.push_back(function);
      build.threads.push_back(0);
      build.shared.push_back(0);
    }
    build.ok = true;
  }
  static void load_gpu(const Driver& driver, const BuildInfo& info, const Device& device, const unsigned char* bytes,
                       LoadedBuild& build) {
    const bool library = use_library(driver);
    const int code = library ? driver.library_load(&build.module, bytes, nullptr, nullptr, 0, nullptr, nullptr, 0)
                             : driver.module_load(&build.module, bytes);
    if (code != 0) {
      build.problem = "the driver does not load an object; it may be too old for it";
      return;
    }
    for (int e = 0; e < info.entries; ++e) {
      Handle function = nullptr, kernel = nullptr;
      int found = library ? driver.library_kernel(&kernel, build.module, info.symbols[e])
                          : driver.module_function(&function, build.module, info.symbols[e]);
      if (library && found == 0) found = driver.kernel_function(&function, kernel);
      if (found != 0 || function == nullptr) {
        build.problem = "a symbol is missing in an object";
        library ? driver.library_unload(build.module) : driver.module_unload(build.module);
        return;
      }
      int threads = 0, shared = 0;
      driver.function_attribute(&threads, 0, function);
      driver.function_attribute(&shared, 1, function);
      // Dynamic shared memory beyond 48 KiB must be asked for; a call must not, it may be captured.
      if (driver.function_set != nullptr && device.limits.shared > 48 * 1024) {
        driver.function_set(function, 8, static_cast<int>(device.limits.shared) - shared);
      }
      build.functions.push_back(function);
      build.threads.push_back(threads);
      build.shared.push_back(shared);
    }
    build.ok = true;
  }

  static const char* check_tensors(const TensorFacts* tensors, int count, bool& empty, bool& aligned) {
    bool any_output = false;
    for (int i = 0; i < count; ++i) {
      const TensorFacts& t = tensors[i];
      if (!t.bytes.ok) return "a tensor's size overflows 64 bits";
      const bool has = t.bytes.value > 0;
      any_output = any_output || (t.output && has);
      if (has && t.data == nullptr && !t.optional) return t.name;
      const auto address = reinterpret_cast<std::uintptr_t>(t.data);
      if (has && address % static_cast<std::uintptr_t>(t.element) != 0) return "a tensor is not aligned to its elements";
      if (has && address % static_cast<std::uintptr_t>(t.align) != 0) aligned = false;
      if (t.given != DType::kAny && t.given != t.wanted) return "a tensor has another dtype than the operator takes";
      if (t.given_rank < 0) continue;
      if (t.given_rank != t.rank) return "a tensor has another rank than the operator takes";
      std::int64_t dense = 1;
      for (int d = t.rank - 1; d >= 0; --d) {
        if (!t.sizes[d].ok || t.given_sizes[d] != t.sizes[d].value) return "a tensor has another shape than its dims say";
        const std::int64_t step = t.given_strides == nullptr ? dense : t.given_strides[d];
        if (t.sizes[d].value > 1 && step != t.strides[d].value) return "a tensor has other strides than the operator takes";
        dense *= t.sizes[d].value > 0 ? t.sizes[d].value : 1;
      }
    }
    empty = !any_output;
    return nullptr;
  }
  // Whether an output shares memory with another tensor.
  static bool aliased(const TensorFacts* tensors, int count) {
    for (int i = 0; i < count; ++i) {
      if (!tensors[i].output || tensors[i].bytes.value <= 0 || tensors[i].data == nullptr) continue;
      const auto begin = reinterpret_cast<std::uintptr_t>(tensors[i].data);
      const auto end = begin + static_cast<std::uintptr_t>(tensors[i].bytes.value);
      for (int k = 0; k < count; ++k) {
        if (k == i || tensors[k].bytes.value <= 0 || tensors[k].data == nullptr) continue;
        const auto other = reinterpret_cast<std::uintptr_t>(tensors[k].data);
        if (other < end && begin < other + static_cast<std::uintptr_t>(tensors[k].bytes.value)) return true;
      }
    }
    return false;
  }

  bool is_off(int kernel) const {
    if (off_any_.load(std::memory_order_acquire)) {
      if (off_all_.load(std::memory_order_relaxed) && kernel != kKernels - 1) return true;
      if (off_[kernel].load(std::memory_order_relaxed)) return true;
    }
    const Disabled disabled = disabled_.load(std::memory_order_acquire);
    return disabled != nullptr && kernel != kKernels - 1 && disabled(disabled_user_, Spec::kName, Spec::kernels()[kernel].id);
  }

  // The object of a kernel for the call's types and specialized dims. -1: none that is loaded.
  int find_build(const Device* device, int target, int kernel, const Call& call) const {
    for (int b = 0; b < kBuilds; ++b) {
      const BuildInfo& info = Spec::builds()[b];
      if (info.kernel != kernel || info.target != target || !Spec::matches(info, call)) continue;
      if (device == nullptr || device->builds[static_cast<std::size_t>(b)].ok) return b;
    }
    return -1;
  }
  // Whether the launches of a kernel are legal for the call.
  bool launchable(const Device* device, Backend backend, int kernel, int build, const Call& call) const {
    const Limits standard;
    Enqueue check(nullptr, nullptr, device != nullptr ? device->limits : standard,
                  device != nullptr ? &device->builds[static_cast<std::size_t>(build)] : nullptr, {backend, nullptr},
                  /*dry=*/true);
    Carver carver(nullptr, 0);
    return Spec::plan(kernel, call, check, carver) && !carver.failed();
  }

  Decision fallback(const Device* device, int target, Backend backend, const Call& call, Why why) const {
    Decision decision;
    decision.choice = Choice::kFallback;
    decision.why = why;
    constexpr int kBaseline = kKernels - 1;
    if (!Spec::guard(kBaseline, call, device != nullptr ? device->limits : Limits(), /*scalars=*/true)) return decision;
    const int build = find_build(device, target, kBaseline, call);
    if (build < 0 || !launchable(device, backend, kBaseline, build, call)) return decision;
    decision.kernel = kBaseline;
    decision.build = build;
    return decision;
  }
  Decision decide_anew(const Device* device, int target, Backend backend, const Call& call) const {
    Candidates candidates;
    Spec::select(target, call, candidates);
    Why why = candidates.count == 0 ? Why::kNoVariant : Why::kNone;
    const Limits limits = device != nullptr ? device->limits : Limits();
    for (int i = 0; i < candidates.count; ++i) {
      const int kernel = candidates.list[i].kernel;
      Decision decision{kernel, -1, candidates.list[i].choice, why};
      if (is_off(kernel)) {
        why = Why::kDisabled;
      } else if (!Spec::guard(kernel, call, limits, /*scalars=*/true)) {
        if (why == Why::kNone) why = Why::kOutsideTested;
      } else if ((decision.build = find_build(device, target, kernel, call)) < 0) {
        if (why == Why::kNone) why = Why::kNotBuilt;
      } else if (!launchable(device, backend, kernel, decision.build, call)) {
        if (why == Why::kNone) why = Why::kLimits;
      } else {
        return decision;
      }
    }
    return fallback(device, target, backend, call, why);
  }

  static std::size_t hash(const std::int64_t* key, const Device* device, int target) {
    std::uint64_t h = reinterpret_cast<std::uintptr_t>(device) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(target);
    for (int i = 0; i < Spec::kKeySize; ++i) {
      h = (h ^ static_cast<std::uint64_t>(key[i])) * 0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    return static_cast<std::size_t>(h);
  }
  Decision decide(const Device* device, int target, Backend backend, const Call& call, bool counted) {
    std::int64_t key[Spec::kKeySize];
    // Lists are no part of a key; disabled kernels may change at any time.
    const bool usable = Spec::key(call, key) && disabled_.load(std::memory_order_acquire) == nullptr &&
                        !off_any_.load(std::memory_order_acquire);
    if (!usable) return decide_anew(device, target, backend, call);
    const std::size_t start = hash(key, device, target);
    for (std::size_t step = 0; step < 8; ++step) {
      std::atomic<Entry*>& place = table_[(start + step) % kTable];
      Entry* entry = place.load(std::memory_order_acquire);
      if (entry == nullptr) {
        const Decision decision = decide_anew(device, target, backend, call);
        remember(place, key, device, target, decision, counted);
        return decision;
      }
      if (entry->device != device || entry->target != target || std::memcmp(entry->key, key, sizeof key) != 0) continue;
      if (counted) entry->calls.fetch_add(1, std::memory_order_relaxed);
      return entry->decision;
    }
    return decide_anew(device, target, backend, call);
  }
  void remember(std::atomic<Entry*>& place, const std::int64_t* key, const Device* device, int target,
                const Decision& decision, bool counted) {
    if (used_.load(std::memory_order_relaxed) >= kEntries) return;
    const unsigned at = used_.fetch_add(1, std::memory_order_acq_rel);
    if (at >= kEntries) return;
    Entry& entry = entries_[at];
    std::memcpy(entry.key, key, sizeof entry.key);
    entry.device = device;
    entry.target = target;
    entry.decision = decision;
    entry.calls.store(counted ? 1 : 0, std::memory_order_relaxed);
    entry.ready.store(true, std::memory_order_release);
    Entry* expected = nullptr;
    place.compare_exchange_strong(expected, &entry, std::memory_order_acq_rel);
  }
  void forget() {
    for (auto& place : table_) place.store(nullptr, std::memory_order_release);
    for (auto& entry : entries_) entry.ready.store(false, std::memory_order_release);
    used_.store(0, std::memory_order_release);
  }

  Result launch(const Device* device, Stream stream, const Call& call, const Decision& decision, Workspace workspace,
                const Types& types, const Shape& shape, const Args& args) {
    Result result;
    result.choice = decision.choice;
    result.why = decision.why;
    counts_[static_cast<int>(decision.choice)].fetch_add(1, std::memory_order_relaxed);
    if (decision.choice == Choice::kFallback) {
      if (const Fallback function = fallback_.load(std::memory_order_acquire)) {
        result.kernel = "callback";
        result.status = function(fallback_user_, stream, types, shape, args);
        return result;
      }
    }
    if (decision.kernel < 0) {
      result.status = Status::kUnsupported;
      result.message = "neither a variant nor the fallback takes this call on this device";
      return result;
    }
    result.kernel = Spec::kernels()[decision.kernel].id;
    Carver needed(nullptr, 0);
    Spec::workspace(decision.kernel, call, device->limits, needed);
    if (needed.used() > workspace.bytes || (needed.used() > 0 && workspace.data == nullptr)) {
      result.status = Status::kNoWorkspace;
      result.message = "the workspace is missing or too small; see workspace_bytes()";
      return result;
    }
    Carver carver(workspace.data, workspace.bytes);
    Enqueue enqueue(stream.backend == Backend::kCpu ? nullptr : &driver_of(stream.backend), Spec::cpu_host(),
                    device->limits, &device->builds[static_cast<std::size_t>(decision.build)], stream, /*dry=*/false);
    if (!Spec::plan(decision.kernel, call, enqueue, carver)) {
      result.status = Status::kDriverError;
      result.code = enqueue.code();
      result.message = "the driver refused a launch";
    }
    return result;
  }

  std::string root_;
  bool compiled_only_ = false;
  std::mutex mutex_;
  std::atomic<Device*> slots_[3][kMaxDevices] = {};
  std::atomic<Fallback> fallback_{nullptr};
  void* fallback_user_ = nullptr;
  std::atomic<Disabled> disabled_{nullptr};
  void* disabled_user_ = nullptr;
  std::atomic<bool> off_all_{false}, off_any_{false};
  std::atomic<bool> off_[kKernels] = {};
  std::atomic<std::uint64_t> counts_[5] = {};
  std::atomic<unsigned> used_{0};
  std::atomic<Entry*> table_[kTable] = {};
  Entry entries_[kEntries];
};

}  // namespace runtime_1
}  // namespace fettle

#endif  // FETTLE_RUNTIME_1_HPP
