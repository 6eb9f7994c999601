// SPDX-License-Identifier: Apache-2.0
// Variables of a module, in both of its sections and with gaps between them. Compiled with
//   fettle compile tests/data/code_objects/state_kernels.cu --target sm_90a
//       --out tests/data/code_objects/state_kernels.sm_90a.cubin
constexpr int kTile = 64;
constexpr float kScale = 2.0f;
__device__ int calls = 7;
__device__ double sum;
__device__ alignas(16) float seen[5];
__device__ char flag = 1;

extern "C" __global__ void remember(int* out) {
  out[0] = calls;
  out[1] = static_cast<int>(sum);
  out[2] = static_cast<int>(seen[4]);
  out[3] = flag;
  calls += kTile;
  sum += 5;
  seen[4] += kScale;
  flag = 9;
}
