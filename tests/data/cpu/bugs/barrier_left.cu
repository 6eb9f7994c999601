// SPDX-License-Identifier: Apache-2.0
// Half of the threads that took the barrier of the loop's first turn never take it again: every sum is right on
// devices that do not wait for threads that have ended, and the language leaves open what happens.
extern "C" __global__ void barrier_left(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int h = 128; h > 0; h /= 2) {
    if (t < h) {
      s[t] += s[t + h];
      __syncthreads();  // BUG: inside of the branch.
    }
  }
  y[t] = t == 0 ? s[0] : 0;
}
