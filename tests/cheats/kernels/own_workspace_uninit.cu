// Reads workspace that it never wrote.
__global__ void tanh1(const float* x, float* y, int n, float* keep) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = tanhf(x[i]) + (keep[i] == 0.f ? 0.f : 1.f);
}
