// SPDX-License-Identifier: Apache-2.0
// Tensors of PyTorch's stable C interface, as fettle_torch.hpp uses them, and the registration of
// operators through it. Declares the functions that it uses; with FETTLE_TORCH_COMPARE the compiler
// compares them with the header of the PyTorch that is here.
#ifndef FETTLE_TORCH_STABLE_HPP
#define FETTLE_TORCH_STABLE_HPP

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <dlfcn.h>

#include <fettle/runtime.hpp>

#ifdef FETTLE_TORCH_COMPARE
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#endif

struct AtenTensorOpaque;
struct DeviceGuardOpaque;
class TorchLibraryOpaque;

// Each returns 0, or a code for an error; pointers through which tensors, guards and libraries are
// returned give ownership.
extern "C" {
std::int32_t aoti_torch_library_init_def(const char* space, const char* file, std::uint32_t line, TorchLibraryOpaque** out);
std::int32_t aoti_torch_library_init_impl(const char* space, const char* key, const char* file, std::uint32_t line,
                                          TorchLibraryOpaque** out);
std::int32_t aoti_torch_library_def(TorchLibraryOpaque* library, const char* schema);
std::int32_t aoti_torch_library_impl(TorchLibraryOpaque* library, const char* name,
                                     void (*function)(std::uint64_t*, std::uint64_t, std::uint64_t));
std::int32_t aoti_torch_delete_tensor_object(AtenTensorOpaque* tensor);
std::int32_t aoti_torch_get_data_ptr(AtenTensorOpaque* tensor, void** out);
std::int32_t aoti_torch_get_dim(AtenTensorOpaque* tensor, std::int64_t* out);
std::int32_t aoti_torch_get_sizes(AtenTensorOpaque* tensor, std::int64_t** out);
std::int32_t aoti_torch_get_strides(AtenTensorOpaque* tensor, std::int64_t** out);
std::int32_t aoti_torch_get_dtype(AtenTensorOpaque* tensor, std::int32_t* out);
std::int32_t aoti_torch_get_device_type(AtenTensorOpaque* tensor, std::int32_t* out);
std::int32_t aoti_torch_get_device_index(AtenTensorOpaque* tensor, std::int32_t* out);
std::int32_t aoti_torch_empty_strided(std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides,
                                      std::int32_t dtype, std::int32_t device_type, std::int32_t device_index,
                                      AtenTensorOpaque** out);
std::int32_t aoti_torch_get_current_device_index(std::int32_t* out);
std::int32_t aoti_torch_create_device_guard(std::int32_t device_index, DeviceGuardOpaque** out);
std::int32_t aoti_torch_delete_device_guard(DeviceGuardOpaque* guard);
std::int32_t aoti_torch_device_type_cpu();
std::int32_t aoti_torch_device_type_cuda();
std::int32_t aoti_torch_dtype_float64();
std::int32_t aoti_torch_dtype_float32();
std::int32_t aoti_torch_dtype_float16();
std::int32_t aoti_torch_dtype_bfloat16();
std::int32_t aoti_torch_dtype_float8_e4m3fn();
std::int32_t aoti_torch_dtype_float8_e4m3fnuz();
std::int32_t aoti_torch_dtype_float8_e5m2();
std::int32_t aoti_torch_dtype_float8_e5m2fnuz();
std::int32_t aoti_torch_dtype_int64();
std::int32_t aoti_torch_dtype_int32();
std::int32_t aoti_torch_dtype_int16();
std::int32_t aoti_torch_dtype_int8();
std::int32_t aoti_torch_dtype_uint8();
std::int32_t aoti_torch_dtype_bool();
}

namespace fettle {
namespace torch_call {

// PyTorch turns it into a RuntimeError.
[[noreturn]] inline void fail(const std::string& message) { throw std::runtime_error(message); }
inline void must(std::int32_t code, const char* what) {
  if (code != 0) fail(std::string("PyTorch: ") + what + " failed");
}

// The numbers of this PyTorch, asked for once.
struct Numbers {
  static constexpr int kCount = 14;
  std::int32_t torch[kCount];
  DType own[kCount] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e4m3fnuz,
                       DType::f8e5m2, DType::f8e5m2fnuz, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8,
                       DType::boolean};
  std::int32_t cpu = aoti_torch_device_type_cpu(), cuda = aoti_torch_device_type_cuda();
  Numbers()
      : torch{aoti_torch_dtype_float64(), aoti_torch_dtype_float32(), aoti_torch_dtype_float16(),
              aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float8_e4m3fn(), aoti_torch_dtype_float8_e4m3fnuz(),
              aoti_torch_dtype_float8_e5m2(), aoti_torch_dtype_float8_e5m2fnuz(), aoti_torch_dtype_int64(),
              aoti_torch_dtype_int32(), aoti_torch_dtype_int16(), aoti_torch_dtype_int8(), aoti_torch_dtype_uint8(),
              aoti_torch_dtype_bool()} {}
  static const Numbers& get() {
    static const Numbers numbers;
    return numbers;
  }
};

// Owns one reference to a tensor of PyTorch.
class Tensor {
 public:
  explicit Tensor(AtenTensorOpaque* handle) : handle_(handle) {}
  std::int64_t dim() const {
    std::int64_t rank = 0;
    must(aoti_torch_get_dim(handle_.get(), &rank), "get_dim");
    return rank;
  }
  std::int64_t* sizes() const {
    std::int64_t* values = nullptr;
    must(aoti_torch_get_sizes(handle_.get(), &values), "get_sizes");
    return values;
  }
  std::int64_t* strides() const {
    std::int64_t* values = nullptr;
    must(aoti_torch_get_strides(handle_.get(), &values), "get_strides");
    return values;
  }
  void* data() const {
    void* address = nullptr;
    must(aoti_torch_get_data_ptr(handle_.get(), &address), "get_data_ptr");
    return address;
  }
  std::int32_t dtype() const {
    std::int32_t number = 0;
    must(aoti_torch_get_dtype(handle_.get(), &number), "get_dtype");
    return number;
  }
  std::int32_t device_type() const {
    std::int32_t number = 0;
    must(aoti_torch_get_device_type(handle_.get(), &number), "get_device_type");
    return number;
  }
  std::int32_t device_index() const {
    std::int32_t number = 0;
    must(aoti_torch_get_device_index(handle_.get(), &number), "get_device_index");
    return number;
  }
  // Gives the reference to the caller.
  AtenTensorOpaque* release() { return handle_.release(); }

 private:
  struct Delete {
    void operator()(AtenTensorOpaque* handle) const { aoti_torch_delete_tensor_object(handle); }
  };
  std::unique_ptr<AtenTensorOpaque, Delete> handle_;
};

inline DType dtype_of(const Tensor& tensor, const char* op) {
  const Numbers& numbers = Numbers::get();
  const std::int32_t number = tensor.dtype();
  for (int i = 0; i < Numbers::kCount; ++i) {
    if (numbers.torch[i] == number) return numbers.own[i];
  }
  fail(std::string(op) + ": a dtype that is not supported");
}

inline std::int64_t size(const Tensor& tensor, std::int64_t axis, const char* what) {
  if (tensor.dim() <= axis) fail(std::string(what) + " has too few dimensions");
  return tensor.sizes()[axis];
}

template <class T>
View<T> view(const Tensor& tensor, const char* op) {
  return View<T>(static_cast<T*>(tensor.data()), dtype_of(tensor, op), static_cast<int>(tensor.dim()), tensor.sizes(),
                 tensor.strides());
}

inline void same_device(const Tensor& first, const Tensor& other, const char* what) {
  if (first.device_type() != other.device_type() || first.device_index() != other.device_index()) {
    fail(std::string(what) + " is on another device");
  }
}

// Makes the tensor's device the current one.
class Guard {
 public:
  explicit Guard(const Tensor& tensor) {
    if (tensor.device_type() == Numbers::get().cpu) return;
    std::int32_t current = -1;
    must(aoti_torch_get_current_device_index(&current), "get_current_device_index");
    if (current == tensor.device_index()) return;
    must(aoti_torch_create_device_guard(tensor.device_index(), &guard_), "create_device_guard");
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (guard_ != nullptr) aoti_torch_delete_device_guard(guard_);
  }

 private:
  DeviceGuardOpaque* guard_ = nullptr;
};

// The vendor's half of PyTorch, which is loaded where there is one.
struct VendorLibrary {
  std::int32_t (*current_stream)(std::int32_t device, void** out) = nullptr;
  bool hip = false;
  static const VendorLibrary& get() {
    static const VendorLibrary library = [] {
      VendorLibrary found;
      for (const char* name : {"libtorch_cuda.so", "libtorch_hip.so"}) {
        void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
        if (handle == nullptr) continue;
        void* symbol = dlsym(handle, "aoti_torch_get_current_cuda_stream");
        found.current_stream = reinterpret_cast<std::int32_t (*)(std::int32_t, void**)>(symbol);
        found.hip = name[8] == 'h';
        break;
      }
      return found;
    }();
    return library;
  }
};

inline Stream stream_of(const Tensor& tensor, const char* op) {
  const Numbers& numbers = Numbers::get();
  const std::int32_t type = tensor.device_type();
  if (type == numbers.cpu) return cpu();
  if (type != numbers.cuda) fail(std::string(op) + ": the device is not supported");
  const VendorLibrary& vendor = VendorLibrary::get();
  void* stream = nullptr;
  if (vendor.current_stream == nullptr || vendor.current_stream(tensor.device_index(), &stream) != 0) {
    fail(std::string(op) + ": PyTorch gives no current stream");
  }
  return vendor.hip ? hip(stream) : cuda(stream);
}

inline Tensor empty(const Tensor& like, std::initializer_list<std::int64_t> sizes, DType dtype) {
  constexpr std::size_t kMostAxes = 16;
  if (sizes.size() > kMostAxes) fail("an output has more than 16 axes");
  std::int64_t strides[kMostAxes] = {};
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    const std::int64_t extent = sizes.begin()[d];
    step *= extent > 1 ? extent : 1;
  }
  const Numbers& numbers = Numbers::get();
  std::int32_t number = 0;
  for (int i = 0; i < Numbers::kCount; ++i) {
    if (numbers.own[i] == dtype) number = numbers.torch[i];
  }
  AtenTensorOpaque* handle = nullptr;
  must(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.begin(), strides, number,
                                like.device_type(), like.device_index(), &handle),
       "empty_strided");
  return Tensor(handle);
}

// Scratch memory of PyTorch's allocator, for one call.
class Memory {
 public:
  void* take(const Tensor& like, std::int64_t bytes) {
    memory_.emplace(empty(like, {bytes}, DType::u8));
    return memory_->data();
  }

 private:
  std::optional<Tensor> memory_;
};

// Arguments as PyTorch hands them over, each taken once, in the order of the schema. All must be
// taken before anything can fail: what is not taken is not given back.
class Stack {
 public:
  explicit Stack(std::uint64_t* values) : at_(values) {}
  Tensor tensor() { return Tensor(reinterpret_cast<AtenTensorOpaque*>(*at_++)); }
  std::optional<Tensor> optional_tensor() {
    const std::unique_ptr<std::uint64_t> held(reinterpret_cast<std::uint64_t*>(*at_++));
    if (held == nullptr) return std::nullopt;
    return Tensor(reinterpret_cast<AtenTensorOpaque*>(*held));
  }
  std::int64_t integer() { return static_cast<std::int64_t>(*at_++); }
  double real() {
    double value = 0;
    std::memcpy(&value, at_++, sizeof value);
    return value;
  }

 private:
  std::uint64_t* at_;
};
inline std::uint64_t result(Tensor& tensor) { return reinterpret_cast<std::uint64_t>(tensor.release()); }

// Registers operators in a namespace, when the extension is loaded; never taken back.
class Registration {
 public:
  using Function = void (*)(std::uint64_t*, std::uint64_t, std::uint64_t);
  Registration(const char* space, std::initializer_list<const char*> schemas,
               std::initializer_list<std::pair<const char*, Function>> functions) {
    TorchLibraryOpaque* library = nullptr;
    must(aoti_torch_library_init_def(space, __FILE__, __LINE__, &library), "library_init_def");
    for (const char* schema : schemas) must(aoti_torch_library_def(library, schema), "library_def");
    for (const char* key : {"CUDA", "CPU"}) {
      must(aoti_torch_library_init_impl(space, key, __FILE__, __LINE__, &library), "library_init_impl");
      for (const auto& [name, function] : functions) {
        must(aoti_torch_library_impl(library, name, function), "library_impl");
      }
    }
  }
};

}  // namespace torch_call
}  // namespace fettle

#endif  // FETTLE_TORCH_STABLE_HPP
