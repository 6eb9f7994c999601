// Rounds codes to zero instead of to nearest.
__global__ void quantize(const float* x, signed char* q, float* scale, int rows, int cols) {
  __shared__ float peak;
  int r = blockIdx.x;
  if (threadIdx.x == 0) {
    float m = 0.f;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, fabsf(x[(long)r * cols + c]));
    peak = m > 0.f ? m / 127.f : 1.f;
    scale[r] = peak;
  }
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    q[(long)r * cols + c] = (signed char)(x[(long)r * cols + c] / peak);
}
