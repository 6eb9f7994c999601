__global__ void atomicsum(const float* x, float* y, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;

  __shared__ float part[256];
  int r = blockIdx.x, t = threadIdx.x;
  float s = 0.f;
  for (int c = t; c < cols; c += blockDim.x) s = s + in[c];
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] = part[t] + part[t + h];
    __syncthreads();
  }

  if (t == 0) y[r] = part[0];
}
