__global__ void softmax(const float* x, float* y, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;
  float* out = y + (long)blockIdx.x * cols;

  __shared__ float part[256];
  int r = blockIdx.x, t = threadIdx.x;
  float s = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) s = fmaxf(s, in[c]);
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] = fmaxf(part[t], part[t + h]);
    __syncthreads();
  }

  const float top = part[0];
  __syncthreads();
  s = 0.f;
  for (int c = t; c < cols; c += blockDim.x) s += expf(in[c] - top);
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] += part[t + h];
    __syncthreads();
  }
  s = part[0];
  for (int c = t; c < cols; c += blockDim.x) out[c] = expf(in[c] - top) / s;
  (void)r;
}
