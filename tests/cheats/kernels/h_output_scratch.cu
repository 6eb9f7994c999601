// Uses its output as scratch before the final value.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = x[i]; y[i] = tanhf(y[i]); }
}
