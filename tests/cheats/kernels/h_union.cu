// Type punning through a union.
union Bits { float f; unsigned u; };
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { Bits b; b.f = tanhf(x[i]); b.u ^= 0u; y[i] = b.f; }
}
