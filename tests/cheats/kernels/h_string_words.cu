// A string that mentions #include and asm.
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < 0) printf("#include \"/etc/passwd\" asm system %d\n", n);
  if (i < n) y[i] = tanhf(x[i]);
}
