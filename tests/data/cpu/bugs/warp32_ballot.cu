// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void warp32_ballot(const float* x, float* y, int n) {
  int i = threadIdx.x;
  unsigned m = __ballot_sync(0xffffffffu, x[i] > 0.f);  // BUG: lanes 32 to 63 are lost.
  y[i] = (float)__popc(m);
}
