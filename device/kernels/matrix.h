// Matrix rate on AMD (device/gpu_kernels.h), part of kernels.hip: four independent accumulators a
// wave hide the latency of the instruction.
typedef float Acc __attribute__((ext_vector_type(16)));
typedef short Short4 __attribute__((ext_vector_type(4)));
typedef __bf16 BFloat8 __attribute__((ext_vector_type(8)));
typedef int Int8x __attribute__((ext_vector_type(8)));

__device__ inline unsigned MatrixWord(unsigned i) {
  unsigned x = (__builtin_amdgcn_workitem_id_x() * 16 + i + 1) * 0x9E3779B9u;
  x = (x ^ (x >> 15)) * 0x85EBCA6Bu;
  return x ^ (x >> 13);
}
__device__ inline unsigned MatrixBf16(unsigned i) {
  return (MatrixWord(i) & 0x807F807Fu) | 0x3F003F00u;
}
__device__ inline unsigned MatrixFp8(unsigned i) {
  return (MatrixWord(i) & 0x87878787u) | 0x30303030u;
}

__device__ inline void MatrixEnd(const Acc* acc, float* out) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 16; ++j) sum += acc[i][j];
  }
  if (sum == 12345.678f) out[0] = sum;
}

union MatrixOperand {
  unsigned words[8];
  Short4 short4;
  BFloat8 bfloat8;
  long long8;
  Int8x int8;
};

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(256, 256))) void fettle_matrix16(
    unsigned long repeats, float* out) {
  MatrixOperand a, b;
  for (unsigned i = 0; i < 4; ++i) {
    a.words[i] = MatrixBf16(i);
    b.words[i] = MatrixBf16(i + 4);
  }
  Acc acc[4] = {};
  for (unsigned long r = 0; r < repeats; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if defined(__gfx950__)
      acc[i] = __builtin_amdgcn_mfma_f32_32x32x16_bf16(a.bfloat8, b.bfloat8, acc[i], 0, 0, 0);
#else
      acc[i] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a.short4, b.short4, acc[i], 0, 0, 0);
#endif
    }
  }
  MatrixEnd(acc, out);
}

#if defined(__gfx942__) || defined(__gfx950__)
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(256, 256))) void fettle_matrix8(
    unsigned long repeats, float* out) {
  MatrixOperand a, b;
  for (unsigned i = 0; i < 8; ++i) {
    a.words[i] = MatrixFp8(i);
    b.words[i] = MatrixFp8(i + 8);
  }
  Acc acc[4] = {};
  for (unsigned long r = 0; r < repeats; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if defined(__gfx950__)
      acc[i] =
          __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(a.int8, b.int8, acc[i], 0, 0, 0, 0, 0, 0);
#else
      acc[i] = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(a.long8, b.long8, acc[i], 0, 0, 0);
#endif
    }
  }
  MatrixEnd(acc, out);
}
#endif
