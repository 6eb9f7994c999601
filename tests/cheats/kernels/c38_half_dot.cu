// Accumulates in half precision.
#include <cuda_fp16.h>
__global__ void gemv(const float* w, const float* x, float* y, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  __half s = __float2half(0.f);
  for (int j = 0; j < k; ++j)
    s = __hadd(s, __hmul(__float2half(w[(long)i * k + j]), __float2half(x[j])));
  y[i] = __half2float(s);
}
