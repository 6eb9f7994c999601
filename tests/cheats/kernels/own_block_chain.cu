// Each block takes a value that the block before it wrote, as if blocks ran in order.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (threadIdx.x == 0 && i > 0) {
    float before = y[i - 1];
    y[i] = before >= -1.f && before <= 1.f ? tanhf(x[i]) : 0.f;
    return;
  }
  y[i] = tanhf(x[i]);
}
