// A barrier in a branch that only half of the block takes.
__global__ void blocksum(const float* x, float* y, int rows, int cols) {
  __shared__ float part[256];
  int r = blockIdx.x, t = threadIdx.x;
  float s = 0.f;
  for (int c = t; c < cols; c += blockDim.x) s += x[(long)r * cols + c];
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) {
      part[t] += part[t + h];
      __syncthreads();
    }
  }
  if (t == 0) y[r] = part[0];
}
