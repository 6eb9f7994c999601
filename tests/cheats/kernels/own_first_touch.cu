// Skips every element whose input is zero, since outputs are zero anyway.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] != 0.f) y[i] = tanhf(x[i]);
}
