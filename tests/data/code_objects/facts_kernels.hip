// Kernels of the readers' tests. The objects beside this file are made from it by
// deploy/scripts/build_code_objects.sh.
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float floats16 __attribute__((ext_vector_type(16)));

// Matrix instructions, wide loads, LDS and barriers.
extern "C" __global__ void __launch_bounds__(256) gemm_tile(const _Float16* a, const _Float16* b,
                                                            float* c, int k) {
  __shared__ _Float16 as[64][40], bs[64][40];
  const int tid = threadIdx.x, lane = tid & 63, wave = tid >> 6;
  const int wm = (wave >> 1) * 32, wn = (wave & 1) * 32, r = tid >> 2, col = (tid & 3) * 8;
  floats16 acc = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    *(half8*)&as[r][col] = *(const half8*)&a[(size_t)(blockIdx.y * 64 + r) * k + k0 + col];
    *(half8*)&bs[r][col] = *(const half8*)&b[(size_t)(blockIdx.x * 64 + r) * k + k0 + col];
    __syncthreads();
#if defined(__gfx950__)
    for (int kk = 0; kk < 32; kk += 16) {
      const half8 x = *(half8*)&as[wm + (lane & 31)][kk + (lane >> 5) * 8];
      const half8 y = *(half8*)&bs[wn + (lane & 31)][kk + (lane >> 5) * 8];
      acc = __builtin_amdgcn_mfma_f32_32x32x16_f16(x, y, acc, 0, 0, 0);
    }
#else
    for (int kk = 0; kk < 32; kk += 8) {
      const half4 x = *(half4*)&as[wm + (lane & 31)][kk + (lane >> 5) * 4];
      const half4 y = *(half4*)&bs[wn + (lane & 31)][kk + (lane >> 5) * 4];
      acc = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, acc, 0, 0, 0);
    }
#endif
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i) {
    const int row = wm + (i / 4) * 8 + (lane >> 5) * 4 + i % 4;
    c[(size_t)(blockIdx.y * 64 + row) * gridDim.x * 64 + blockIdx.x * 64 + wn + (lane & 31)] = acc[i];
  }
}

// Atomics of both kinds, a shuffle, narrow loads.
extern "C" __global__ void __launch_bounds__(128) count_bytes(const unsigned char* in, unsigned* out,
                                                              float* sum, int n) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += 128) bins[i] = 0;
  __syncthreads();
  float local = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) {
    atomicAdd(&bins[in[i]], 1u);
    local += in[i];
  }
  local += __shfl_xor(local, 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 128) atomicAdd(&out[i], bins[i]);
  atomicAdd(sum, local);
}

// More live values than 1024 threads have registers for: spills to scratch.
extern "C" __global__ void __launch_bounds__(1024) spills(const float* in, float* out) {
  float v[192];
#pragma unroll
  for (int i = 0; i < 192; ++i) v[i] = in[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 192; ++i) out[threadIdx.x + i * 1024] = v[i] * v[(i * 7 + 3) % 192] + v[191 - i];
}
