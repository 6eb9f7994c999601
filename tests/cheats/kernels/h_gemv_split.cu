// Four partial sums: another order of additions.
__global__ void gemv(const float* w, const float* x, float* y, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const float* r = w + (long)i * k;
  float s[4] = {0.f, 0.f, 0.f, 0.f};
  for (int j = 0; j < k; ++j) s[j & 3] += r[j] * x[j];
  y[i] = (s[0] + s[1]) + (s[2] + s[3]);
}
