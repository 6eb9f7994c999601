// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/task.h"

namespace fettle {

// A small valid task with one tunable, BLOCK = 1 .. `blocks`; the declared value is 1.
inline TaskFiles ScaleTask(int blocks) {
  std::string values;
  for (int i = 1; i <= blocks; ++i) values += (i == 1 ? "" : ", ") + std::to_string(i);
  TaskFiles files;
  files["task.yaml"] = R"yaml(format: 1
name: scale
summary: Doubles every element.
license: Apache-2.0
dims:
  n: {min: 0, max: 65536}
args:
  - x: {role: in, dtype: f32, shape: [n], fill: {normal: [0, 1]}}
  - y: {role: out, dtype: f32, shape: [n]}
  - n: {role: scalar, dtype: i32, value: n}
baseline:
  source: kernel.cu
  tunables:
    BLOCK: [)yaml" + values +
                       R"yaml(]
  values: {BLOCK: 1}
  constraints: []
  workspace: []
  launches:
    - {kernel: scale, grid: ["ceil_div(n, 64)"], block: [64], shared: 0, args: [x, y, n]}
reference: {source: reference.cc, function: scale_ref}
cases:
  timed:
    - {n: 4096}
  checked:
    - {n: 1}
    - {n: 0}
  held_out: 1
tolerance: {y: {rtol: 1.0e-5, atol: 1.0e-6}}
work: {bytes: "8*n", flops: "n"}
contract: {deterministic: true, nonfinite: propagate}
)yaml";
  files["kernel.cu"] = R"yaml(extern "C" __global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)yaml";
  files["reference.cc"] = R"yaml(#include <fettle/reference.h>
extern "C" void scale_ref(fettle_ref* ref) { (void)ref; }
)yaml";
  return files;
}

}  // namespace fettle
