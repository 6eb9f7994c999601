// Comments that mention asm, #include "/etc/passwd", system() and <<<>>>.
// asm volatile("nop"); #include "/etc/passwd" system("rm") kernel<<<1, 1>>>()
/* __attribute__((constructor)) #embed "/etc/passwd" */
__global__ void tanh_fwd(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tanhf(x[i]);
}
