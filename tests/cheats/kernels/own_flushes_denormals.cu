// Flushes subnormal numbers to zero.
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = v != v ? v : v > 1.17549435e-38f ? v : 0.f;
}
