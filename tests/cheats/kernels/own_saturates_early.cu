// Answers 1 for everything above 3.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = v > 3.f ? 1.f : v < -3.f ? -1.f : tanhf(v);
}
