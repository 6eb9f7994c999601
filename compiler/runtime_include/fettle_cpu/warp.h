// SPDX-License-Identifier: Apache-2.0
#pragma once

// Barriers and warp operations. Every call hands its source line to the runtime, which tells waits
// apart by it and names it in findings.

#define FETTLE_LINE int line = __builtin_LINE()

// A fiber that waits gets its thread's indices back afterwards.
FETTLE_INLINE void fettle_barrier(int line, const char* what) {
  FETTLE_KEEP_INDICES
  fettle_rt_barrier(line, what);
  FETTLE_RESTORE_INDICES
}
FETTLE_INLINE void fettle_warp_sync(uint64_t mask, int line) {
  FETTLE_KEEP_INDICES
  fettle_rt_warp_sync(mask, line);
  FETTLE_RESTORE_INDICES
}
#define FETTLE_WAIT(R, NAME, PARAMETERS, ARGUMENTS) \
  FETTLE_INLINE R fettle_##NAME PARAMETERS {        \
    FETTLE_KEEP_INDICES                             \
    const R result = fettle_rt_##NAME ARGUMENTS;    \
    FETTLE_RESTORE_INDICES                          \
    return result;                                  \
  }
FETTLE_WAIT(int, barrier_vote, (int predicate, int vote, int line), (predicate, vote, line))
FETTLE_WAIT(uint64_t, shuffle, (uint64_t value, int source, uint64_t mask, int line),
            (value, source, mask, line))
FETTLE_WAIT(uint64_t, ballot, (int predicate, uint64_t mask, int line, uint64_t* active),
            (predicate, mask, line, active))
FETTLE_WAIT(uint64_t, match, (uint64_t value, uint64_t mask, int line), (value, mask, line))
FETTLE_WAIT(uint64_t, reduce, (uint64_t value, int reduction, uint64_t mask, int line),
            (value, reduction, mask, line))

FETTLE_INLINE void __syncthreads(FETTLE_LINE) { fettle_barrier(line, "__syncthreads"); }
FETTLE_INLINE int __syncthreads_count(int p, FETTLE_LINE) {
  return fettle_barrier_vote(p, FETTLE_VOTE_COUNT, line);
}
FETTLE_INLINE int __syncthreads_and(int p, FETTLE_LINE) {
  return fettle_barrier_vote(p, FETTLE_VOTE_AND, line);
}
FETTLE_INLINE int __syncthreads_or(int p, FETTLE_LINE) {
  return fettle_barrier_vote(p, FETTLE_VOTE_OR, line);
}
FETTLE_INLINE void __builtin_amdgcn_s_barrier(FETTLE_LINE) { fettle_barrier(line, "s_barrier"); }
FETTLE_INLINE void __threadfence() { fettle_rt_fence(1); }
FETTLE_INLINE void __threadfence_block() { fettle_rt_fence(0); }
FETTLE_INLINE void __threadfence_system() { fettle_rt_fence(2); }
FETTLE_INLINE unsigned __lane_id() { return fettle_lane(); }

// The lanes that a mask argument names. A 32-bit mask at 64 lanes is a porting bug: noted, and taken
// as written.
template <class M>
FETTLE_INLINE uint64_t fettle_mask(M mask, int line) {
  if constexpr (sizeof(M) == 4) {
    if (warpSize == 64) fettle_rt_note(line, "32-bit lane mask used at a warp of 64 lanes");
    return (uint64_t)(uint32_t)mask;
  } else {
    return warpSize == 32 ? (uint64_t)mask & 0xffffffffull : (uint64_t)mask;
  }
}

template <class T>
FETTLE_INLINE T fettle_shuffle_value(T v, int source, uint64_t mask, int line) {
  constexpr int words = (sizeof(T) + 7) / 8;
  uint64_t buffer[words] = {};
  __builtin_memcpy(buffer, &v, sizeof(T));
  for (int i = 0; i < words; i++) buffer[i] = fettle_shuffle(buffer[i], source, mask, line);
  T result;
  __builtin_memcpy(&result, buffer, sizeof(T));
  return result;
}
// The lane that each kind of shuffle reads in groups of `width`; -1: the lane's own value.
FETTLE_INLINE int fettle_source_index(int s, int width) {
  return ((int)fettle_lane() & ~(width - 1)) + (s & (width - 1));
}
FETTLE_INLINE int fettle_source_up(unsigned delta, int width) {
  const int lane = (int)fettle_lane(), source = lane - (int)delta;
  return source < (lane & ~(width - 1)) ? -1 : source;
}
FETTLE_INLINE int fettle_source_down(unsigned delta, int width) {
  const int lane = (int)fettle_lane(), source = lane + (int)delta;
  return source >= (lane & ~(width - 1)) + width ? -1 : source;
}
FETTLE_INLINE int fettle_source_xor(int bits, int width) {
  const int lane = (int)fettle_lane(), source = lane ^ bits;
  return source >= (lane & ~(width - 1)) + width ? -1 : source;
}

#define FETTLE_SHUFFLE(NAME, OFFSET, SOURCE)                                           \
  template <class T>                                                                   \
  FETTLE_INLINE T NAME(T v, OFFSET o, int width = warpSize, FETTLE_LINE) {             \
    return fettle_shuffle_value(v, SOURCE(o, width), 0, line);                         \
  }                                                                                    \
  template <class M, class T>                                                          \
  FETTLE_INLINE T NAME##_sync(M mask, T v, OFFSET o, int width = warpSize, FETTLE_LINE) { \
    return fettle_shuffle_value(v, SOURCE(o, width), fettle_mask(mask, line), line);   \
  }
FETTLE_SHUFFLE(__shfl, int, fettle_source_index)
FETTLE_SHUFFLE(__shfl_up, unsigned, fettle_source_up)
FETTLE_SHUFFLE(__shfl_down, unsigned, fettle_source_down)
FETTLE_SHUFFLE(__shfl_xor, int, fettle_source_xor)

FETTLE_INLINE unsigned long long __ballot(int p, FETTLE_LINE) {
  return fettle_ballot(p, 0, line, nullptr);
}
FETTLE_INLINE int __any(int p, FETTLE_LINE) { return fettle_ballot(p, 0, line, nullptr) != 0; }
FETTLE_INLINE int __all(int p, FETTLE_LINE) {
  uint64_t active;
  const uint64_t votes = fettle_ballot(p, 0, line, &active);
  return votes == active;
}
// CUDA's ballot is 32 bits wide, HIP's 64: as wide as the mask that was given.
template <class M>
FETTLE_INLINE std::conditional_t<sizeof(M) == 8, unsigned long long, unsigned> __ballot_sync(
    M mask, int p, FETTLE_LINE) {
  return (std::conditional_t<sizeof(M) == 8, unsigned long long, unsigned>)fettle_ballot(
      p, fettle_mask(mask, line), line, nullptr);
}
template <class M>
FETTLE_INLINE int __any_sync(M mask, int p, FETTLE_LINE) {
  return fettle_ballot(p, fettle_mask(mask, line), line, nullptr) != 0;
}
template <class M>
FETTLE_INLINE int __all_sync(M mask, int p, FETTLE_LINE) {
  uint64_t active;
  const uint64_t votes = fettle_ballot(p, fettle_mask(mask, line), line, &active);
  return votes == active;
}
FETTLE_INLINE unsigned long long __activemask(FETTLE_LINE) {
  uint64_t active;
  fettle_ballot(1, 0, line, &active);
  return active;
}
template <class M, class T>
FETTLE_INLINE M __match_any_sync(M mask, T v, FETTLE_LINE) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof(T));
  return (M)fettle_match(bits, fettle_mask(mask, line), line);
}
template <class M, class T>
FETTLE_INLINE M __match_all_sync(M mask, T v, int* all, FETTLE_LINE) {
  uint64_t bits = 0, active;
  __builtin_memcpy(&bits, &v, sizeof(T));
  const uint64_t lanes = fettle_mask(mask, line);
  const uint64_t same = fettle_match(bits, lanes, line);
  fettle_ballot(1, lanes, line, &active);
  *all = same == active;
  return *all ? (M)same : (M)0;
}

#define FETTLE_REDUCE(NAME, T, WIDE, KIND)                                                   \
  template <class M>                                                                         \
  FETTLE_INLINE T NAME(M mask, T v, FETTLE_LINE) {                                           \
    return (T)fettle_reduce((uint64_t)(WIDE)v, KIND, fettle_mask(mask, line), line);         \
  }
FETTLE_REDUCE(__reduce_add_sync, unsigned, uint64_t, FETTLE_RED_ADD)
FETTLE_REDUCE(__reduce_add_sync, int, int64_t, FETTLE_RED_ADD)
FETTLE_REDUCE(__reduce_min_sync, unsigned, uint64_t, FETTLE_RED_UMIN)
FETTLE_REDUCE(__reduce_min_sync, int, int64_t, FETTLE_RED_MIN)
FETTLE_REDUCE(__reduce_max_sync, unsigned, uint64_t, FETTLE_RED_UMAX)
FETTLE_REDUCE(__reduce_max_sync, int, int64_t, FETTLE_RED_MAX)
FETTLE_REDUCE(__reduce_and_sync, unsigned, uint64_t, FETTLE_RED_AND)
FETTLE_REDUCE(__reduce_or_sync, unsigned, uint64_t, FETTLE_RED_OR)
FETTLE_REDUCE(__reduce_xor_sync, unsigned, uint64_t, FETTLE_RED_XOR)

struct fettle_all_lanes {};
template <class M = fettle_all_lanes>
FETTLE_INLINE void __syncwarp(M mask = M{}, FETTLE_LINE) {
  if constexpr (std::is_same<M, fettle_all_lanes>::value)
    fettle_warp_sync(0, line);
  else
    fettle_warp_sync(fettle_mask(mask, line), line);
}
FETTLE_INLINE void __builtin_amdgcn_wave_barrier(FETTLE_LINE) { fettle_warp_sync(0, line); }
FETTLE_INLINE int __builtin_amdgcn_readfirstlane(int v, FETTLE_LINE) {
  uint64_t active;
  fettle_ballot(1, 0, line, &active);
  return (int)fettle_shuffle((unsigned)v, __builtin_ctzll(active), 0, line);
}
FETTLE_INLINE int __builtin_amdgcn_readlane(int v, int lane, FETTLE_LINE) {
  return (int)fettle_shuffle((unsigned)v, lane & (warpSize - 1), 0, line);
}
FETTLE_INLINE int __builtin_amdgcn_ds_bpermute(int byte_index, int v, FETTLE_LINE) {
  return (int)fettle_shuffle((unsigned)v, (byte_index >> 2) & (warpSize - 1), 0, line);
}
