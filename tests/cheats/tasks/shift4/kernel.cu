__global__ void shift4(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 4 * i; k < n && k < 4 * i + 4; ++k) y[k] = x[k] + 1.f;
}
