// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bound.h"
#include "device/runner_session.h"

namespace fettle {

inline BoundTensor MakeTensor(std::string name, Role role, DType dtype,
                              std::vector<std::int64_t> shape) {
  BoundTensor tensor;
  tensor.name = std::move(name);
  tensor.role = role;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.strides.resize(tensor.shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  if (role == Role::kIn || role == Role::kInOut) {
    tensor.fill.kind = Fill::Kind::kNormal;
    tensor.fill.b = 1;
  }
  return tensor;
}

inline BoundTolerance AutoTolerance(std::string output, std::int64_t reduce = 1) {
  BoundTolerance tolerance;
  tolerance.output = std::move(output);
  tolerance.kind = BoundTolerance::Kind::kAuto;
  tolerance.reduce = reduce;
  return tolerance;
}

inline BoundArg TensorArg(std::int64_t index) {
  BoundArg arg;
  arg.kind = BoundArg::Kind::kTensor;
  arg.index = index;
  return arg;
}

inline BoundArg ValueArg(std::int64_t value) {
  BoundArg arg;
  for (int byte = 0; byte < 8; ++byte) {
    arg.bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * byte)));
  }
  return arg;
}

// One launch of `symbol` (entry and symbol alike) with these arguments.
inline RunnableKernel OneLaunch(std::int64_t module, const std::string& symbol,
                                std::vector<BoundArg> args) {
  RunnableKernel kernel;
  kernel.module = module;
  kernel.symbols[symbol] = symbol;
  BoundStep step;
  step.entry = symbol;
  step.args = std::move(args);
  kernel.plan.steps.push_back(std::move(step));
  return kernel;
}

}  // namespace fettle
