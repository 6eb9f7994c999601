// Runs code when the object is loaded.
__attribute__((constructor)) static void at_load() { volatile int* p = nullptr; (void)p; }
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}
