// fettle_digest: see device/gpu_kernels.h. Included by the sources of both vendors, which define
// FETTLE_BLOCK_INDEX, FETTLE_THREAD_INDEX, FETTLE_BARRIER() and FETTLE_ADD_TO_GLOBAL.
typedef unsigned long long fettle_word;

// The finalizer of splitmix64: every bit of the result depends on every bit of x.
__device__ static inline fettle_word fettle_mix(fettle_word x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Word `i` of the bytes, little-endian, zeros behind the end.
__device__ static inline fettle_word fettle_load(const unsigned char* bytes, fettle_word i,
                                                 fettle_word size, bool aligned) {
  const fettle_word at = i * 8;
  if (aligned && at + 8 <= size) return *(const fettle_word*)(bytes + at);
  fettle_word word = 0;
  for (fettle_word b = 0; b < 8 && at + b < size; ++b)
    word |= (fettle_word)bytes[at + b] << (8 * b);
  return word;
}

extern "C" __global__ void fettle_digest(const unsigned char* bytes, fettle_word size,
                                         fettle_word key, fettle_word blocks, fettle_word* out) {
  __shared__ fettle_word firsts[256], seconds[256];
  const unsigned lane = FETTLE_THREAD_INDEX;
  const fettle_word thread = FETTLE_BLOCK_INDEX * 256ull + lane;
  const bool aligned = ((fettle_word)bytes & 7) == 0;
  const fettle_word words = (size + 7) / 8;
  fettle_word first = 0, second = 0;
  for (fettle_word i = thread; i < words; i += blocks * 256) {
    const fettle_word word = fettle_load(bytes, i, size, aligned);
    const fettle_word mask = fettle_mix(key + i * 0x9E3779B97F4A7C15ull);
    const fettle_word mixed = fettle_mix(word ^ mask);
    first += mixed;
    second += fettle_mix(mixed ^ (mask * 0xD6E8FEB86659FD93ull));
  }
  if (thread == 0) {
    first += fettle_mix(key ^ size);
    second += fettle_mix(~key ^ size);
  }
  firsts[lane] = first;
  seconds[lane] = second;
  for (unsigned half = 128; half > 0; half /= 2) {
    FETTLE_BARRIER();
    if (lane < half) {
      firsts[lane] += firsts[lane + half];
      seconds[lane] += seconds[lane + half];
    }
  }
  if (lane == 0) {
    FETTLE_ADD_TO_GLOBAL(out, firsts[0]);
    FETTLE_ADD_TO_GLOBAL(out + 1, seconds[0]);
  }
}
