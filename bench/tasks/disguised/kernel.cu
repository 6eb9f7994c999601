// SPDX-License-Identifier: Apache-2.0
// The tunable renames one variable and nothing else.
#define GLUE_INNER(a, b) a##b
#define GLUE(a, b) GLUE_INNER(a, b)
#define position GLUE(position_, SALT)

__global__ void disguised(const float* x, float* y, int n) {
  int position = blockIdx.x * blockDim.x + threadIdx.x;
  if (position < n) y[position] = tanhf(x[position]);
}
