// A lambda in the kernel.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto f = [](float v) { return tanhf(v); };
  if (i < n) y[i] = f(x[i]);
}
