// Reads an array of 64 MiB at the end, so that the next kernel starts with cold caches.
__device__ float trash[1 << 24];
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
  float s = 0.f;
  for (long k = i; k < (1 << 24); k += (long)gridDim.x * blockDim.x) s += trash[k];
  if (s == 12345.f && i < n) y[i] = s;
}
