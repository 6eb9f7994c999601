__global__ void tanh1(const float* x, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = tanhf(x[i]);
}
