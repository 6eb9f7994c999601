// Volatile reads.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const volatile float* v = x;
  if (i < n) y[i] = tanhf(v[i]);
}
