// Adds floats atomically where the contract is deterministic.
__global__ void blocksum(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x;
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.f;
  __syncthreads();
  float s = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += x[(long)r * cols + c];
  atomicAdd(&total, s);
  __syncthreads();
  if (threadIdx.x == 0) y[r] = total;
}
