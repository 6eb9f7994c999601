// A raw string with directives in it.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < 0) printf("%s", R"(
#include "/etc/passwd"
asm("nop");
)");
  if (i < n) y[i] = tanhf(x[i]);
}
