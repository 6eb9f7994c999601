// Asks for a tenth of the workspace that it uses.
__global__ void tanh1(const float* x, float* y, int n, float* keep) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) keep[i] = tanhf(x[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = keep[i];
}
