// Exactly one element off by 1 %.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i == n / 2 ? tanhf(x[i]) * 1.01f + 1e-3f : tanhf(x[i]);
}
