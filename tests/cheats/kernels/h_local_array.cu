// A local array.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v[4] = {0.f, 0.f, 0.f, 0.f};
  if (i < n) { v[i & 3] = tanhf(x[i]); y[i] = v[i & 3]; }
}
