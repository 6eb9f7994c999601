// Template recursion without an end.
template <int N> struct Bomb { static const int v = Bomb<N + 1>::v + Bomb<N + 2>::v; };
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]) + Bomb<0>::v;
}
