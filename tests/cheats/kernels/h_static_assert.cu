// A static assertion and constexpr functions.
constexpr int square(int v) { return v * v; }
static_assert(square(4) == 16, "arithmetic");
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}
