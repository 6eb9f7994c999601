// Leaves out the subtraction of the maximum.
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;
  float s = 0.f;
  for (int c = 0; c < cols; ++c) s += expf(in[c]);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[(long)blockIdx.x * cols + c] = expf(in[c]) / s;
}
