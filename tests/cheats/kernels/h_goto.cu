// A goto.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) goto done;
  y[i] = tanhf(x[i]);
done:
  return;
}
