// A writable module variable used as scratch, written before it is read.
__device__ float scratch[64];
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 64) scratch[i] = 1.f;
  if (i < n) y[i] = tanhf(x[i]);
}
