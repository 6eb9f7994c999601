// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void spin_forever(const float* x, volatile float* y, int n) {
  while (y[0] != 1.f) {  // BUG: nobody writes y[0].
  }
}
