// SPDX-License-Identifier: Apache-2.0
// Tensors of PyTorch's C++ interface, as fettle_torch.hpp uses them.
#ifndef FETTLE_TORCH_ATEN_HPP
#define FETTLE_TORCH_ATEN_HPP

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

// PyTorch's C interface, in libtorch_cuda and libtorch_hip: no vendor header is needed.
extern "C" __attribute__((weak)) std::int32_t aoti_torch_get_current_cuda_stream(std::int32_t device, void** stream);

namespace fettle {
namespace torch_call {

using Tensor = at::Tensor;

[[noreturn]] inline void fail(const std::string& message) { TORCH_CHECK(false, message); }

inline DType dtype_of(const Tensor& tensor, const char* op) {
  switch (tensor.scalar_type()) {
    case at::kDouble: return DType::f64;
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kFloat8_e4m3fn: return DType::f8e4m3fn;
    case at::kFloat8_e4m3fnuz: return DType::f8e4m3fnuz;
    case at::kFloat8_e5m2: return DType::f8e5m2;
    case at::kFloat8_e5m2fnuz: return DType::f8e5m2fnuz;
    case at::kLong: return DType::i64;
    case at::kInt: return DType::i32;
    case at::kShort: return DType::i16;
    case at::kChar: return DType::i8;
    case at::kByte: return DType::u8;
    case at::kBool: return DType::boolean;
    default: fail(std::string(op) + ": a dtype that is not supported: " + c10::toString(tensor.scalar_type()));
  }
}
inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return at::kDouble;
    case DType::f32: return at::kFloat;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
    case DType::f8e4m3fn: return at::kFloat8_e4m3fn;
    case DType::f8e4m3fnuz: return at::kFloat8_e4m3fnuz;
    case DType::f8e5m2: return at::kFloat8_e5m2;
    case DType::f8e5m2fnuz: return at::kFloat8_e5m2fnuz;
    case DType::i64: return at::kLong;
    case DType::i32: return at::kInt;
    case DType::i16: return at::kShort;
    case DType::i8: return at::kChar;
    case DType::boolean: return at::kBool;
    default: return at::kByte;
  }
}

inline std::int64_t size(const Tensor& tensor, std::int64_t axis, const char* what) {
  if (tensor.dim() <= axis) fail(std::string(what) + " has too few dimensions");
  return tensor.size(axis);
}

template <class T>
View<T> view(const Tensor& tensor, const char* op) {
  return View<T>(static_cast<T*>(const_cast<void*>(tensor.const_data_ptr())), dtype_of(tensor, op),
                 static_cast<int>(tensor.dim()), tensor.sizes().data(), tensor.strides().data());
}

inline void same_device(const Tensor& first, const Tensor& other, const char* what) {
  if (first.device() != other.device()) fail(std::string(what) + " is on another device");
}

// Makes the tensor's device the current one.
class Guard {
 public:
  explicit Guard(const Tensor& tensor) : guard_(tensor.device()) {}

 private:
  const c10::DeviceGuard guard_;
};

inline Stream stream_of(const Tensor& tensor, const char* op) {
  if (tensor.is_cpu()) return cpu();
  if (!tensor.is_cuda()) fail(std::string(op) + ": the device " + tensor.device().str() + " is not supported");
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream == nullptr ||
      aoti_torch_get_current_cuda_stream(static_cast<std::int32_t>(tensor.get_device()), &stream) != 0) {
    fail(std::string(op) + ": PyTorch gives no current stream");
  }
#ifdef USE_ROCM
  return hip(stream);
#else
  return cuda(stream);
#endif
}

inline Tensor empty(const Tensor& like, std::initializer_list<std::int64_t> sizes, DType dtype) {
  return at::empty(at::IntArrayRef(sizes), like.options().dtype(scalar_type(dtype)));
}

// Scratch memory of PyTorch's allocator, for one call.
class Memory {
 public:
  void* take(const Tensor& like, std::int64_t bytes) {
    memory_ = empty(like, {bytes}, DType::u8);
    return memory_.data_ptr();
  }

 private:
  Tensor memory_;
};

}  // namespace torch_call
}  // namespace fettle

#endif  // FETTLE_TORCH_ATEN_HPP
