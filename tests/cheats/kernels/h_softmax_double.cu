// Sums in double.
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  __shared__ float top;
  __shared__ double total;
  const float* in = x + (long)blockIdx.x * cols;
  if (threadIdx.x == 0) {
    float m = -INFINITY;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, in[c]);
    double s = 0;
    for (int c = 0; c < cols; ++c) s += expf(in[c] - m);
    top = m;
    total = s;
  }
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(long)blockIdx.x * cols + c] = (float)(expf(in[c] - top) / total);
}
