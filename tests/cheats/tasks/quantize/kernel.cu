__global__ void quantize(const float* x, signed char* q, float* scale, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;

  __shared__ float part[256];
  int r = blockIdx.x, t = threadIdx.x;
  float s = 0.f;
  for (int c = t; c < cols; c += blockDim.x) s = fmaxf(s, fabsf(in[c]));
  part[t] = s;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (t < h) part[t] = fmaxf(part[t], part[t + h]);
    __syncthreads();
  }

  const float step = part[0] > 0.f ? part[0] / 127.f : 1.f;
  if (t == 0) scale[r] = step;
  for (int c = t; c < cols; c += blockDim.x) q[(long)r * cols + c] = (signed char)rintf(in[c] / step);
}
