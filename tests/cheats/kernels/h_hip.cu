// The HIP dialect.
#include <hip/hip_runtime.h>
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
  if (i < n) y[i] = tanhf(x[i]);
}
