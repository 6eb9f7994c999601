__global__ void wavesum(const float* x, float* y, int rows) {
  __shared__ float part[64];
  int t = threadIdx.x;
  part[t] = x[(long)blockIdx.x * 64 + t];
  __syncthreads();
  for (int h = 32; h > 0; h /= 2) {
    if (t < h) part[t] += part[t + h];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}
