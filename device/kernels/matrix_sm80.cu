// Matrix rate where warp-wide multiplications reach it (device/gpu_kernels.h): Ampere, Ada and the small
// Blackwells. Its PTX is matrix.ptx (deploy/scripts/build_code_objects.sh).
extern "C" __global__ void __launch_bounds__(256) fettle_matrix16(unsigned long long repeats, float* out) {
  float acc[8][4] = {};
  unsigned a[4], b[2];
  unsigned x = (threadIdx.x + 1) * 0x9E3779B9u;
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    x = (x ^ (x >> 15)) * 0x85EBCA6Bu;
    (i < 4 ? a[i & 3] : b[i & 1]) = (x & 0x807F807Fu) | 0x3F003F00u;  // bf16 within +-[0.5, 1).
  }
  for (unsigned long long r = 0; r < repeats; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
          "{%0,%1,%2,%3};"
          : "+f"(acc[i][0]), "+f"(acc[i][1]), "+f"(acc[i][2]), "+f"(acc[i][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += acc[i][0] + acc[i][1] + acc[i][2] + acc[i][3];
  if (sum == 12345.678f) out[0] = sum;
}
