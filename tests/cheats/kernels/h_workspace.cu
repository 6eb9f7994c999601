// Goes through a workspace.
__global__ void first(const float* x, float* w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] = x[i] * 2.f;
}
__global__ void tanh_fwd(const float* w, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(w[i] * 0.5f);
}
