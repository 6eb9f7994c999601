// Identifiers that contain banned words: plasma, systematic, exec_count, forked, main_loop.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int plasma = i, systematic = n, exec_count = 0, forked = 1, main_loop = 0, opened = 0;
  for (; main_loop < forked; ++main_loop) ++exec_count;
  if (plasma < systematic && exec_count > opened) y[plasma] = tanhf(x[plasma]);
}
