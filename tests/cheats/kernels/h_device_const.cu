// A read-only module variable.
__device__ const float scale[1] = {1.f};
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]) * scale[0];
}
