// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stands in for the part of PyTorch behind its stable C interface: a registry of operators and
// tensors in host memory. Tests call operators through it as PyTorch does.

#include <cstdint>

struct AtenTensorOpaque;

extern "C" {
// A new reference to a tensor over `data`, which must outlive it. `device_type`: 0 the CPU, 1 CUDA.
// `strides` may be null: dense.
AtenTensorOpaque* fake_torch_tensor(void* data, int dtype, int rank, const std::int64_t* sizes,
                                    const std::int64_t* strides, int device_type, int device_index);
void* fake_torch_data(AtenTensorOpaque* tensor);
std::int64_t fake_torch_size(AtenTensorOpaque* tensor, int axis);
int fake_torch_dtype(AtenTensorOpaque* tensor);
// References that were not given back, device guards that are held, and guards made so far.
int fake_torch_tensors();
int fake_torch_guards();
int fake_torch_guards_made();

// Schemas in the order of their registration, one a line, each with its namespace.
const char* fake_torch_schemas();
// Calls the operator's function for the key ("CPU", "CUDA") with a stack of arguments, which it
// replaces by results. Null, or what the exception said.
const char* fake_torch_call(const char* name, const char* key, std::uint64_t* stack,
                            std::uint64_t inputs, std::uint64_t outputs);
}
