// One pass for maximum and sum, shuffles within a warp.
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  const float* in = x + (long)blockIdx.x * cols;
  float m = -INFINITY, s = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    float v = in[c], w = fmaxf(m, v);
    s = s * (m == -INFINITY ? 0.f : expf(m - w)) + expf(v - w);
    m = w;
  }
  for (int d = 16; d > 0; d /= 2) {
    float om = __shfl_xor_sync(0xffffffffu, m, d), os = __shfl_xor_sync(0xffffffffu, s, d);
    float w = fmaxf(m, om);
    if (w != -INFINITY) s = s * (m == -INFINITY ? 0.f : expf(m - w)) + os * (om == -INFINITY ? 0.f : expf(om - w));
    m = w;
  }
  for (int c = threadIdx.x; c < cols; c += 32) y[(long)blockIdx.x * cols + c] = expf(in[c] - m) / s;
}
