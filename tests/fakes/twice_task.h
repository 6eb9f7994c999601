// SPDX-License-Identifier: Apache-2.0
#pragma once

// A whole small task that runs on every target: y = 2 x, with a real reference.

#include <string>

#include "core/task.h"
#include "core/work_unit.h"

namespace fettle {

inline constexpr char kTwiceTask[] = R"yaml(
format: 1
name: twice
summary: Twice the input.
license: Apache-2.0
dims:
  n: {min: 0, max: 1048576}
args:
  - x: {role: in, dtype: f32, shape: [n], fill: {normal: [0, 1]}}
  - y: {role: out, dtype: f32, shape: [n]}
  - n: {role: scalar, dtype: i32, value: n}
baseline:
  source: kernel.cu
  tunables: {BLOCK: [64, 256]}
  values: {BLOCK: 256}
  constraints: ["BLOCK <= target.max_block"]
  workspace: []
  launches:
    - {kernel: twice, grid: ["ceil_div(n, BLOCK)"], block: [BLOCK], shared: 0, args: [x, y, n]}
reference: {source: reference.cc, function: twice_ref}
cases:
  timed: [{n: 65536}]
  checked: [{n: 1}, {n: 257}]
  held_out: 2
tolerance: {y: {rtol: 1.0e-6, atol: 1.0e-6}}
work: {bytes: "8*n", flops: "n"}
contract: {deterministic: true, nonfinite: unspecified}
rivals: []
)yaml";

inline constexpr char kTwiceReference[] = R"(
#include "fettle_reference.h"
extern "C" void twice_ref(fettle_ref* ref) {
  const fettle_tensor& x = fettle_input(ref, "x");
  fettle_result& result = fettle_output(ref, "y");
  for (std::int64_t i = 0; i < fettle_row_count(result); ++i) {
    result.values[i] = 2 * x.values[static_cast<std::size_t>(fettle_row(result, i))];
  }
}
)";

// The kernel with `body` for each element i < n.
inline std::string TwiceKernel(const std::string& body, const std::string& before = "") {
  return before + R"(
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { )" +
         body + " }\n}\n";
}

inline TaskFiles TwiceTask(const std::string& yaml = kTwiceTask) {
  return {{"task.yaml", yaml},
          {"kernel.cu", TwiceKernel("y[i] = 2 * x[i];")},
          {"reference.cc", kTwiceReference}};
}

// `source` under the task's own plan and values.
inline KernelUnderTest TwiceUnderTest(const Task& task, const std::string& target,
                                      const std::string& source) {
  KernelUnderTest kernel;
  kernel.kernel = task.baseline();
  kernel.kernel.source = source;
  kernel.values = kernel.kernel.values;
  kernel.digest = CandidateDigest(task.digest(), target, kernel.kernel, kernel.values);
  return kernel;
}

}  // namespace fettle
