// SPDX-License-Identifier: Apache-2.0
//
// Device memory and comparisons for programs that run a bundle's test vectors. Not for production:
// calls synchronise and end the program on an error.
#ifndef FETTLE_VECTOR_MEMORY_1_HPP
#define FETTLE_VECTOR_MEMORY_1_HPP

#include <cmath>

#include <fettle/runtime.hpp>

namespace fettle {
inline namespace runtime_1 {

class VectorMemory {
 public:
  VectorMemory(Backend backend, std::string folder) : backend_(backend), folder_(std::move(folder)) {
    if (backend == Backend::kCpu) return;
    const bool cuda = backend == Backend::kCuda;
    static const char* const cuda_names[] = {"libcuda.so.1", nullptr};
    static const char* const hip_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "/opt/rocm/lib/libamdhip64.so", nullptr};
    void* library = detail::open_library(cuda ? "FETTLE_CUDA_LIBRARY" : "FETTLE_HIP_LIBRARY", cuda ? cuda_names : hip_names);
    if (library == nullptr) stop("no driver", 0);
    const char* missing = nullptr;
    detail::bind(allocate_, library, cuda ? "cuMemAlloc_v2" : "hipMalloc", &missing);
    detail::bind(free_, library, cuda ? "cuMemFree_v2" : "hipFree", &missing);
    detail::bind(in_, library, cuda ? "cuMemcpyHtoD_v2" : "hipMemcpyHtoD", &missing);
    detail::bind(out_, library, cuda ? "cuMemcpyDtoH_v2" : "hipMemcpyDtoH", &missing);
    detail::bind(wait_, library, cuda ? "cuCtxSynchronize" : "hipDeviceSynchronize", &missing);
    if (missing != nullptr) stop(missing, 0);
    if (!cuda) return;
    int (*init)(unsigned) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*set)(void*) = nullptr;
    detail::bind(init, library, "cuInit", &missing);
    detail::bind(retain, library, "cuDevicePrimaryCtxRetain", &missing);
    detail::bind(set, library, "cuCtxSetCurrent", &missing);
    void* context = nullptr;
    if (missing != nullptr || init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0) stop("no context", 0);
  }

  Stream stream() const { return {backend_, nullptr}; }
  // Memory of the size, aligned to 256 bytes; a file's bytes are copied into it.
  void* input(const char* file) {
    std::vector<unsigned char> bytes = read(file);
    void* address = output(bytes.size());
    if (backend_ == Backend::kCpu) std::memcpy(address, bytes.data(), bytes.size());
    else if (!bytes.empty()) check(in_(reinterpret_cast<std::uint64_t>(address), bytes.data(), bytes.size()), "copy in");
    return address;
  }
  void* output(std::size_t size) {
    const std::size_t whole = (size + 511) / 256 * 256;
    if (backend_ == Backend::kCpu) {
      void* address = std::aligned_alloc(256, whole);
      std::memset(address, 0xA5, whole);
      return address;
    }
    std::uint64_t address = 0;
    check(allocate_(&address, whole), "allocate");
    return reinterpret_cast<void*>(address);
  }
  // Elements of an output that are further from what is expected than they may be.
  long compare(const void* address, std::size_t size, DType dtype, const char* expected_file, const char* tolerance_file) {
    std::vector<unsigned char> bytes(size);
    if (backend_ == Backend::kCpu) {
      std::memcpy(bytes.data(), address, size);
    } else {
      check(wait_(), "wait");
      check(out_(bytes.data(), reinterpret_cast<std::uint64_t>(address), size), "copy out");
    }
    const std::vector<unsigned char> expected = read(expected_file), tolerance = read(tolerance_file);
    const std::size_t count = expected.size() / 8;
    long wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double want, may;
      std::memcpy(&want, expected.data() + 8 * i, 8);
      std::memcpy(&may, tolerance.data() + 8 * i, 8);
      const double got = decode(dtype, bytes.data(), i);
      const bool same_class = std::isnan(want) == std::isnan(got) && std::isinf(want) == std::isinf(got);
      const bool close = std::isnan(want) || (std::isinf(want) ? want == got : std::fabs(got - want) <= may);
      if (!same_class || !close) ++wrong;
    }
    return wrong;
  }
  void wait() {
    if (backend_ != Backend::kCpu) check(wait_(), "wait");
  }

 private:
  [[noreturn]] static void stop(const char* what, int code) {
    std::fprintf(stderr, "%s (%d)\n", what, code);
    std::exit(3);
  }
  static void check(int code, const char* what) {
    if (code != 0) stop(what, code);
  }
  std::vector<unsigned char> read(const char* file) const {
    std::vector<unsigned char> bytes = detail::read_file(folder_ + "/" + file);
    if (bytes.empty()) stop(file, 0);
    bytes.pop_back();
    return bytes;
  }
  template <class T>
  static double load(const unsigned char* bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    return static_cast<double>(value);
  }
  // A float of `exponent` and `mantissa` bits with the usual bias; no infinity where `finite`.
  static double small(unsigned bits, int exponent, int mantissa, int bias, bool finite) {
    const unsigned fraction = bits & ((1u << mantissa) - 1), power = bits >> mantissa & ((1u << exponent) - 1);
    const double sign = (bits >> (exponent + mantissa) & 1) != 0 ? -1 : 1;
    if (!finite && power == (1u << exponent) - 1) return fraction == 0 ? sign * INFINITY : NAN;
    if (power == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - mantissa);
    return sign * std::ldexp(1.0 + std::ldexp(static_cast<double>(fraction), -mantissa), static_cast<int>(power) - bias);
  }
  static double decode(DType dtype, const unsigned char* bytes, std::size_t i) {
    switch (dtype) {
      case DType::f64: return load<double>(bytes, i);
      case DType::f32: return load<float>(bytes, i);
      case DType::i64: return load<std::int64_t>(bytes, i);
      case DType::i32: return load<std::int32_t>(bytes, i);
      case DType::i16: return load<std::int16_t>(bytes, i);
      case DType::i8: return load<std::int8_t>(bytes, i);
      case DType::f16: return small(static_cast<unsigned>(load<std::uint16_t>(bytes, i)), 5, 10, 15, false);
      case DType::bf16: return small(static_cast<unsigned>(load<std::uint16_t>(bytes, i)), 8, 7, 127, false);
      case DType::f8e5m2: return small(bytes[i], 5, 2, 15, false);
      case DType::f8e4m3fn: return (bytes[i] & 0x7f) == 0x7f ? NAN : small(bytes[i], 4, 3, 7, true);
      case DType::f8e4m3fnuz: return bytes[i] == 0x80 ? NAN : small(bytes[i], 4, 3, 8, true);
      case DType::f8e5m2fnuz: return bytes[i] == 0x80 ? NAN : small(bytes[i], 5, 2, 16, true);
      default: return bytes[i];
    }
  }

  Backend backend_;
  std::string folder_;
  int (*allocate_)(std::uint64_t*, std::size_t) = nullptr;
  int (*free_)(std::uint64_t) = nullptr;
  int (*in_)(std::uint64_t, const void*, std::size_t) = nullptr;
  int (*out_)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*wait_)() = nullptr;
};

}  // namespace runtime_1
}  // namespace fettle

#endif  // FETTLE_VECTOR_MEMORY_1_HPP
