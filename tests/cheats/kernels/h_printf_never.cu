// A printf that is never reached.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 0) printf("never %d\n", i);
  if (i < n) y[i] = tanhf(x[i]);
}
