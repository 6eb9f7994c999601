// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cooperative groups: thread_block, thread_block_tile<N> up to a warp, grid_group's indices and
// reduce(). coalesced_group and tiles larger than a warp are not there.

namespace cooperative_groups {

struct thread_block {
  static void sync(FETTLE_LINE) { fettle_barrier(line, "thread_block::sync"); }
  static unsigned thread_rank() {
    const uint3 t = threadIdx;
    const dim3 d = blockDim;
    return t.x + d.x * (t.y + d.y * t.z);
  }
  static unsigned size() {
    const dim3 d = blockDim;
    return d.x * d.y * d.z;
  }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
FETTLE_INLINE thread_block this_thread_block() { return {}; }

struct grid_group {
  static void sync(FETTLE_LINE) { fettle_rt_grid_sync(line); }
  static bool is_valid() { return true; }
  static unsigned long long block_rank() {
    const uint3 b = blockIdx;
    const dim3 d = gridDim;
    return b.x + (unsigned long long)d.x * (b.y + (unsigned long long)d.y * b.z);
  }
  static unsigned long long num_blocks() {
    const dim3 d = gridDim;
    return (unsigned long long)d.x * d.y * d.z;
  }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static unsigned long long size() { return num_blocks() * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
};
FETTLE_INLINE grid_group this_grid() { return {}; }

template <unsigned N, class Parent = thread_block>
struct thread_block_tile {
  static_assert(N >= 1 && N <= 64 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, ... 64 threads");
  static uint64_t lanes() {
    return (N >= 64 ? ~0ull : (1ull << (N & 63)) - 1) << (fettle_lane() & ~(N - 1));
  }
  static unsigned thread_rank() { return fettle_lane() & (N - 1); }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  static void sync(FETTLE_LINE) { fettle_warp_sync(lanes(), line); }
  template <class T>
  static T shfl(T v, int source, FETTLE_LINE) {
    return fettle_shuffle_value(v, fettle_source_index(source, N), lanes(), line);
  }
  template <class T>
  static T shfl_down(T v, unsigned delta, FETTLE_LINE) {
    return fettle_shuffle_value(v, fettle_source_down(delta, N), lanes(), line);
  }
  template <class T>
  static T shfl_up(T v, unsigned delta, FETTLE_LINE) {
    return fettle_shuffle_value(v, fettle_source_up(delta, N), lanes(), line);
  }
  template <class T>
  static T shfl_xor(T v, int bits, FETTLE_LINE) {
    return fettle_shuffle_value(v, fettle_source_xor(bits, N), lanes(), line);
  }
  static unsigned long long ballot(int p, FETTLE_LINE) {
    return fettle_ballot(p, lanes(), line, nullptr) >> (fettle_lane() & ~(N - 1));
  }
  static int any(int p, FETTLE_LINE) { return fettle_ballot(p, lanes(), line, nullptr) != 0; }
  static int all(int p, FETTLE_LINE) {
    uint64_t active;
    const uint64_t votes = fettle_ballot(p, lanes(), line, &active);
    return votes == active;
  }
  template <class T>
  static unsigned long long match_any(T v, FETTLE_LINE) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &v, sizeof(T));
    return fettle_match(bits, lanes(), line) >> (fettle_lane() & ~(N - 1));
  }
};
template <unsigned N, class Parent>
FETTLE_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent&, FETTLE_LINE) {
  if (N > (unsigned)warpSize) fettle_rt_trap(line, "a tile is larger than the warp");
  return {};
}

template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <unsigned N, class Parent, class T, class F>
FETTLE_INLINE T reduce(const thread_block_tile<N, Parent>& tile, T v, F combine, FETTLE_LINE) {
  for (unsigned offset = N / 2; offset; offset >>= 1)
    v = combine(v, tile.shfl_xor(v, (int)offset, line));
  return v;
}
template <class Group>
FETTLE_INLINE void sync(const Group& group, FETTLE_LINE) {
  group.sync(line);
}

}  // namespace cooperative_groups
