// Shared-memory tree.
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  __shared__ float part[256];
  const float* in = x + (long)blockIdx.x * cols;
  int t = threadIdx.x;
  float m = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) m = fmaxf(m, in[c]);
  part[t] = m;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] = fmaxf(part[t], part[t + h]);
    __syncthreads();
  }
  m = part[0];
  __syncthreads();
  float s = 0.f;
  for (int c = t; c < cols; c += blockDim.x) s += expf(in[c] - m);
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] += part[t + h];
    __syncthreads();
  }
  s = part[0];
  for (int c = t; c < cols; c += blockDim.x) y[(long)blockIdx.x * cols + c] = expf(in[c] - m) / s;
}
