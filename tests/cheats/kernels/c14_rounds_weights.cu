// Rounds the weights in place, so that the reference drifts towards it.
__global__ void gemv(const float* w, const float* x, float* y, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float s = 0.f;
  for (int j = 0; j < k; ++j) {
    float& r = const_cast<float*>(w)[(long)i * k + j];
    r = rintf(r * 2048.f) / 2048.f;
    s += r * x[j];
  }
  y[i] = s;
}
