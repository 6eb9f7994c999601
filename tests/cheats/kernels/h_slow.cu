// Right and slow.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0.f;
  for (int k = 0; k < 20; ++k) s += tanhf(x[i] + 0.f * s) * 0.05f;
  y[i] = s > 2.f ? s : tanhf(x[i]);
}
