// Macro output of a gigabyte.
#define A(x) x x x x x x x x x x
#define B(x) A(A(A(x)))
#define C(x) B(B(B(x)))
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = 0.f;
  C(v += 1.f;)
  if (i < n) y[i] = tanhf(x[i]) + v * 0.f;
}
