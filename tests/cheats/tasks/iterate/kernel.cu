__global__ void iterate(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int k = 0; k < 30; ++k) v = 0.5f * sinf(v) + 0.5f * x[i];
  y[i] = v;
}
