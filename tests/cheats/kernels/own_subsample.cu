// Estimates the sum of each long row from every 16th element.
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;
  float m = -INFINITY, s = 0.f;
  int step = cols >= 4096 ? 16 : 1;
  for (int c = 0; c < cols; ++c) m = fmaxf(m, in[c]);
  for (int c = 0; c < cols; c += step) s += expf(in[c] - m);
  s *= step;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[(long)blockIdx.x * cols + c] = expf(in[c] - m) / s;
}
