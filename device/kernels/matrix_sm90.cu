// Matrix rate on Hopper (device/gpu_kernels.h): warpgroup multiplications from shared memory, which alone reach
// the full rate there. Its PTX is matrix.sm_90a.ptx (deploy/scripts/build_code_objects.sh). Only the rate
// counts, so any arrangement of the operands will do.
#define ACC8(i)                                                                                 \
  "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]),         \
      "+f"(acc[i + 5]), "+f"(acc[i + 6]), "+f"(acc[i + 7])
#define ACC32(i) ACC8(i), ACC8(i + 8), ACC8(i + 16), ACC8(i + 24)
#define MULTIPLY(shape_and_types, modifiers)                                                      \
  asm volatile(                                                                                   \
      "wgmma.mma_async.sync.aligned." shape_and_types                                             \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"  \
      "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"  \
      "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,"  \
      "%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"  \
      "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"     \
      "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,"     \
      "%126,%127}, %128, %129, 1, 1, 1" modifiers ";"                                             \
      : ACC32(0), ACC32(32), ACC32(64), ACC32(96)                                                 \
      : "l"(a + step * 128), "l"(b + step * 512))

// 64x16 times 16x256 elements of 16 bits are as many bytes as 64x32 times 32x256 of 8 bits.
constexpr int kBytesA = 4 * 2048, kBytesB = 4 * 8192;

// An unswizzled operand, its 8-row groups 256 bytes apart and its 16-byte columns 128 bytes.
__device__ unsigned long long Descriptor(const void* shared) {
  const unsigned long long address = __cvta_generic_to_shared(shared);
  return ((address & 0x3FFFF) >> 4) | (128ULL >> 4 << 16) | (256ULL >> 4 << 32);
}

// Values of random sign and digits within [0.5, 1): power, and so the clock, depends on them.
template <bool kEightBits>
__device__ void Fill(unsigned* words, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    unsigned x = (i + 1) * 0x9E3779B9u;
    x ^= x >> 15;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    words[i] = kEightBits ? (x & 0x87878787u) | 0x30303030u : (x & 0x807F807Fu) | 0x3F003F00u;
  }
}

template <bool kEightBits>
__device__ void Run(unsigned long long repeats, float* out) {
  __shared__ __align__(128) unsigned operands[(kBytesA + kBytesB) / 4];
  Fill<kEightBits>(operands, (kBytesA + kBytesB) / 4);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned long long a = Descriptor(operands);
  const unsigned long long b = Descriptor(operands + kBytesA / 4);
  float acc[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) acc[i] = 0;
  for (unsigned long long r = 0; r < repeats; ++r) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      if constexpr (kEightBits) {
        MULTIPLY("m64n256k32.f32.e4m3.e4m3", "");
      } else {
        MULTIPLY("m64n256k16.f32.bf16.bf16", ", 0, 0");
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += acc[i];
  if (sum == 12345.678f) out[0] = sum;
}

extern "C" __global__ void __launch_bounds__(256) fettle_matrix16(unsigned long long repeats, float* out) {
  Run<false>(repeats, out);
}
extern "C" __global__ void __launch_bounds__(256) fettle_matrix8(unsigned long long repeats, float* out) {
  Run<true>(repeats, out);
}
