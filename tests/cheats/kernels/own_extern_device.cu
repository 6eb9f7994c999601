// Declares a function of the host as device code, and calls it.
extern "C" __device__ int sched_yield();
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
  if (i == 0) sched_yield();
}
