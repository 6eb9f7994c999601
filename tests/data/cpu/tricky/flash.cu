// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
// one block = 32 query rows, D = 32, online softmax over key tiles of 32
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int n,
                                 float scale) {
  constexpr int D = 32, B = 32;
  __shared__ float q[B][D + 1], k[B][D + 1], v[B][D + 1], s[B][B + 1];
  __shared__ float m[B], l[B], alpha[B];
  int tx = threadIdx.x, ty = threadIdx.y;  // 32 x 8
  float o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int r = ty; r < B; r += 8) q[r][tx] = Q[(blockIdx.x * B + r) * D + tx];
  if (ty == 0) {
    m[tx] = -INFINITY;
    l[tx] = 0.f;
  }
  for (int t = 0; t < n; t += B) {
    __syncthreads();
    for (int r = ty; r < B; r += 8) {
      k[r][tx] = K[(t + r) * D + tx];
      v[r][tx] = V[(t + r) * D + tx];
    }
    __syncthreads();
    for (int r = ty; r < B; r += 8) {
      float a = 0;
      for (int d = 0; d < D; ++d) a += q[r][d] * k[tx][d];
      a *= scale;
      float mx = a;
      for (int w = 16; w; w >>= 1) mx = fmaxf(mx, __shfl_xor(mx, w, 32));
      float mn = fmaxf(m[r], mx), e = __expf(a - mn), sum = e;
      for (int w = 16; w; w >>= 1) sum += __shfl_xor(sum, w, 32);
      s[r][tx] = e;
      float al = __expf(m[r] - mn);
      __syncwarp();
      if (tx == 0) {
        alpha[r] = al;
        l[r] = l[r] * al + sum;
        m[r] = mn;
      }
    }
    __syncthreads();
    for (int j = 0, r = ty; r < B; r += 8, ++j) {
      float acc = o[j] * alpha[r];
      for (int c = 0; c < B; ++c) acc += s[r][c] * v[c][tx];
      o[j] = acc;
    }
  }
  for (int j = 0, r = ty; r < B; r += 8, ++j) O[(blockIdx.x * B + r) * D + tx] = o[j] / l[r];
}
