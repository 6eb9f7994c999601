// Kernels of the device contract test. device_kernels.ptx is made from this by
// deploy/scripts/build_code_objects.sh.
__device__ int g_counter;
__constant__ float c_scale;

extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}

// Reverses a block through dynamic shared memory.
extern "C" __global__ void reverse(int* data) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// Writes the last int of a large dynamic shared allocation and reads it back.
extern "C" __global__ void touch_shared(int* out, int bytes) {
  extern __shared__ int tile[];
  tile[bytes / 4 - 1] = 41;
  __syncthreads();
  out[0] = tile[bytes / 4 - 1] + 1;
}

extern "C" __global__ void count() { atomicAdd(&g_counter, 1); }

extern "C" __global__ void endless(volatile int* flag) {
  while (*flag == 0) {
  }
}

extern "C" __global__ void wild_write(unsigned long long address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

extern "C" __global__ void misaligned(char* p) {
  *reinterpret_cast<volatile int*>(p + 1) = 1;
}

extern "C" __global__ void trap() { __trap(); }
