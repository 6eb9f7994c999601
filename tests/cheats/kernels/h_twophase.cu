// One pass.
__global__ void twophase(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(2.f, x[i], x[0]);
}
