// Runs code when the object is loaded, through a static object.
struct AtLoad { int v; AtLoad() : v(7) {} };
static AtLoad at_load;
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]) + 0.f * at_load.v;
}
