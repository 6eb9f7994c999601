// Clamps infinities to the largest float.
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    y[i] = v != v ? v : v > 3.4e38f ? 3.4e38f : v > 0.f ? v : 0.f;
  }
}
