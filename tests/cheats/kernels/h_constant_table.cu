// A table in constant memory.
__constant__ float one[2] = {1.f, 1.f};
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i] * one[i & 1]);
}
