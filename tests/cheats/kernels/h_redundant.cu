// Two threads write the same value to each element.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) / 2;
  if (i < n && (threadIdx.x & 1) == 0) y[i] = tanhf(x[i]);
}
