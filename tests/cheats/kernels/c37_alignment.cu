// Loads 16 bytes through a pointer that the contract only aligns to 4.
__global__ void shift4(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i + 3 < n) {
    float4 v = ((const float4*)x)[i];
    v.x += 1.f;
    v.y += 1.f;
    v.z += 1.f;
    v.w += 1.f;
    ((float4*)y)[i] = v;
  } else {
    for (int k = 4 * i; k < n; ++k) y[k] = x[k] + 1.f;
  }
}
