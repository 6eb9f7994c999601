// Overflows its stack.
__device__ int deep(volatile int* p, int k) { volatile int a[256]; a[k & 255] = k; return k < 0 ? a[0] : deep(a, k + 1) + a[k & 255] + *p; }
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile int seed = 1;
  if (i < n) y[i] = tanhf(x[i]);
  if (i == 0) y[0] = (float)deep(&seed, 1);
}
