// GELU in another form.
__global__ void gelu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    double v = x[i];
    y[i] = (float)(0.5 * v * erfc(-v * 0.70710678118654752));
  }
}
