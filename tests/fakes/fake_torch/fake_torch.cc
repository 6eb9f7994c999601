// SPDX-License-Identifier: Apache-2.0
#include "fake_torch.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct AtenTensorOpaque {
  std::shared_ptr<void> owned;
  void* data = nullptr;
  std::int32_t dtype = 0, device_type = 0, device_index = 0;
  std::vector<std::int64_t> sizes, strides;
};
struct DeviceGuardOpaque {
  std::int32_t before = 0;
};
class TorchLibraryOpaque {
 public:
  std::string space, key;
};

namespace {

using Function = void (*)(std::uint64_t*, std::uint64_t, std::uint64_t);

std::atomic<int> tensors{0}, guards{0}, guards_made{0};
thread_local std::int32_t current_device = 0;

std::map<std::string, Function>& Functions() {  // By "key space::name".
  static auto* const functions = new std::map<std::string, Function>;
  return *functions;
}
std::string& Schemas() {
  static auto* const schemas = new std::string;
  return *schemas;
}

AtenTensorOpaque* New(AtenTensorOpaque tensor) {
  tensors.fetch_add(1);
  return new AtenTensorOpaque(std::move(tensor));
}

}  // namespace

extern "C" {

AtenTensorOpaque* fake_torch_tensor(void* data, int dtype, int rank, const std::int64_t* sizes,
                                    const std::int64_t* strides, int device_type,
                                    int device_index) {
  AtenTensorOpaque tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.device_type = device_type;
  tensor.device_index = device_index;
  tensor.sizes.assign(sizes, sizes + rank);
  tensor.strides.resize(static_cast<std::size_t>(rank));
  std::int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    tensor.strides[static_cast<std::size_t>(d)] = strides == nullptr ? step : strides[d];
    step *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return New(std::move(tensor));
}
void* fake_torch_data(AtenTensorOpaque* tensor) { return tensor->data; }
std::int64_t fake_torch_size(AtenTensorOpaque* tensor, int axis) {
  return tensor->sizes[static_cast<std::size_t>(axis)];
}
int fake_torch_dtype(AtenTensorOpaque* tensor) { return tensor->dtype; }
int fake_torch_tensors() { return tensors.load(); }
int fake_torch_guards() { return guards.load(); }
int fake_torch_guards_made() { return guards_made.load(); }
const char* fake_torch_schemas() { return Schemas().c_str(); }
const char* fake_torch_call(const char* name, const char* key, std::uint64_t* stack,
                            std::uint64_t inputs, std::uint64_t outputs) {
  thread_local std::string message;
  const auto found = Functions().find(std::string(key) + " " + name);
  if (found == Functions().end()) return "no such operator";
  try {
    found->second(stack, inputs, outputs);
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
  return nullptr;
}

// PyTorch's own.

std::int32_t aoti_torch_library_init_def(const char* space, const char*, std::uint32_t,
                                         TorchLibraryOpaque** out) {
  *out = new TorchLibraryOpaque{space, ""};
  return 0;
}
std::int32_t aoti_torch_library_init_impl(const char* space, const char* key, const char*,
                                          std::uint32_t, TorchLibraryOpaque** out) {
  *out = new TorchLibraryOpaque{space, key};
  return 0;
}
std::int32_t aoti_torch_library_def(TorchLibraryOpaque* library, const char* schema) {
  Schemas() += library->space + "::" + schema + "\n";
  return 0;
}
std::int32_t aoti_torch_library_impl(TorchLibraryOpaque* library, const char* name,
                                     Function function) {
  // As PyTorch: what is implemented must have been defined.
  if (Schemas().find(library->space + "::" + name + "(") == std::string::npos) return 1;
  Functions()[library->key + " " + name] = function;
  return 0;
}
std::int32_t aoti_torch_delete_tensor_object(AtenTensorOpaque* tensor) {
  tensors.fetch_sub(1);
  delete tensor;
  return 0;
}
std::int32_t aoti_torch_get_data_ptr(AtenTensorOpaque* tensor, void** out) {
  *out = tensor->data;
  return 0;
}
std::int32_t aoti_torch_get_dim(AtenTensorOpaque* tensor, std::int64_t* out) {
  *out = static_cast<std::int64_t>(tensor->sizes.size());
  return 0;
}
std::int32_t aoti_torch_get_sizes(AtenTensorOpaque* tensor, std::int64_t** out) {
  *out = tensor->sizes.data();
  return 0;
}
std::int32_t aoti_torch_get_strides(AtenTensorOpaque* tensor, std::int64_t** out) {
  *out = tensor->strides.data();
  return 0;
}
std::int32_t aoti_torch_get_dtype(AtenTensorOpaque* tensor, std::int32_t* out) {
  *out = tensor->dtype;
  return 0;
}
std::int32_t aoti_torch_get_device_type(AtenTensorOpaque* tensor, std::int32_t* out) {
  *out = tensor->device_type;
  return 0;
}
std::int32_t aoti_torch_get_device_index(AtenTensorOpaque* tensor, std::int32_t* out) {
  *out = tensor->device_index;
  return 0;
}
std::int32_t aoti_torch_empty_strided(std::int64_t rank, const std::int64_t* sizes,
                                      const std::int64_t* strides, std::int32_t dtype,
                                      std::int32_t device_type, std::int32_t device_index,
                                      AtenTensorOpaque** out) {
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (sizes[d] < 0) return 1;
    count *= sizes[d];
  }
  AtenTensorOpaque tensor;
  tensor.owned = std::shared_ptr<void>(
      std::aligned_alloc(256, static_cast<std::size_t>((count * 8 + 511) / 256 * 256)), std::free);
  tensor.data = tensor.owned.get();
  tensor.dtype = dtype;
  tensor.device_type = device_type;
  tensor.device_index = device_index;
  tensor.sizes.assign(sizes, sizes + rank);
  tensor.strides.assign(strides, strides + rank);
  *out = New(std::move(tensor));
  return 0;
}
std::int32_t aoti_torch_get_current_device_index(std::int32_t* out) {
  *out = current_device;
  return 0;
}
std::int32_t aoti_torch_create_device_guard(std::int32_t index, DeviceGuardOpaque** out) {
  guards.fetch_add(1);
  guards_made.fetch_add(1);
  *out = new DeviceGuardOpaque{current_device};
  current_device = index;
  return 0;
}
std::int32_t aoti_torch_delete_device_guard(DeviceGuardOpaque* guard) {
  guards.fetch_sub(1);
  current_device = guard->before;
  delete guard;
  return 0;
}
std::int32_t aoti_torch_device_type_cpu() { return 0; }
std::int32_t aoti_torch_device_type_cuda() { return 1; }
// Numbers of dtypes: as PyTorch 2.11 has them.
std::int32_t aoti_torch_dtype_uint8() { return 0; }
std::int32_t aoti_torch_dtype_int8() { return 1; }
std::int32_t aoti_torch_dtype_int16() { return 2; }
std::int32_t aoti_torch_dtype_int32() { return 3; }
std::int32_t aoti_torch_dtype_int64() { return 4; }
std::int32_t aoti_torch_dtype_float16() { return 5; }
std::int32_t aoti_torch_dtype_float32() { return 6; }
std::int32_t aoti_torch_dtype_float64() { return 7; }
std::int32_t aoti_torch_dtype_bool() { return 11; }
std::int32_t aoti_torch_dtype_bfloat16() { return 15; }
std::int32_t aoti_torch_dtype_float8_e5m2() { return 23; }
std::int32_t aoti_torch_dtype_float8_e4m3fn() { return 24; }
std::int32_t aoti_torch_dtype_float8_e5m2fnuz() { return 25; }
std::int32_t aoti_torch_dtype_float8_e4m3fnuz() { return 26; }
}
