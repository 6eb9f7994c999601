// Kahan summation.
__global__ void gemv(const float* w, const float* x, float* y, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float s = 0.f, c = 0.f;
  for (int j = 0; j < k; ++j) {
    float t = w[(long)i * k + j] * x[j] - c, u = s + t;
    c = (u - s) - t;
    s = u;
  }
  y[i] = s;
}
