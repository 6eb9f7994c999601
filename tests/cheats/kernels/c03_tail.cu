// Vectorised store drops the last n % 4 elements.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (n + 3) / 4) return;
  if (4 * i + 3 < n)
    for (int k = 0; k < 4; ++k) y[4 * i + k] = tanhf(x[4 * i + k]);
}
