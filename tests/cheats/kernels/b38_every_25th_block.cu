// Every 25th block writes zeros: 4 % of the elements.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = blockIdx.x % 25 == 24 ? 0.f : tanhf(x[i]);
}
