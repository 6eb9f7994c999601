// Another formula that is accurate enough.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double e = exp(2.0 * fabs((double)x[i]));
  double r = e > 1e300 ? 1.0 : 1.0 - 2.0 / (e + 1.0);
  y[i] = x[i] != x[i] ? x[i] : fabsf(x[i]) < 1e-4f ? tanhf(x[i]) : copysignf((float)r, x[i]);
}
