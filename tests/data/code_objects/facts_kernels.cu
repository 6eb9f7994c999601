// Kernels of the readers' tests; facts_kernels.sm_90a.cubin is made from it by
// deploy/scripts/build_code_objects.sh.
#include <cuda_fp16.h>
#include <mma.h>

// Matrix instructions, shared memory, barriers, 128-bit loads.
extern "C" __global__ void __launch_bounds__(256) gemm_tile(const __half* a, const __half* b, float* c,
                                                            int k) {
  using namespace nvcuda::wmma;
  __shared__ __align__(16) __half as[64 * 16], bs[64 * 16];
  fragment<matrix_a, 16, 16, 16, __half, row_major> x;
  fragment<matrix_b, 16, 16, 16, __half, col_major> y;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.0f);
  for (int k0 = 0; k0 < k; k0 += 16) {
    if (threadIdx.x < 128) {
      reinterpret_cast<uint4*>(as)[threadIdx.x] = reinterpret_cast<const uint4*>(a + k0 * 64)[threadIdx.x];
      reinterpret_cast<uint4*>(bs)[threadIdx.x] = reinterpret_cast<const uint4*>(b + k0 * 64)[threadIdx.x];
    }
    __syncthreads();
    load_matrix_sync(x, as + (threadIdx.x / 32 % 4) * 256, 16);
    load_matrix_sync(y, bs + (threadIdx.x / 32 % 4) * 256, 16);
    mma_sync(acc, x, y, acc);
    __syncthreads();
  }
  store_matrix_sync(c + (threadIdx.x / 32) * 256, acc, 16, mem_row_major);
}

extern "C" __global__ void __launch_bounds__(128) count_bytes(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += 128) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 128) atomicAdd(&out[i], bins[i]);
}

extern "C" __global__ void __launch_bounds__(1024) spills(const float* in, float* out) {
  float v[192];
#pragma unroll
  for (int i = 0; i < 192; ++i) v[i] = in[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 192; ++i) out[threadIdx.x + i * 1024] = v[i] * v[(i * 7 + 3) % 192] + v[191 - i];
}
