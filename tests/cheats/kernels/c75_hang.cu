// Never ends.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile int go = 0;
  while (!go) {}
  if (i < n) y[i] = tanhf(x[i]);
}
