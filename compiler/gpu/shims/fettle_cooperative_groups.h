// The part of cooperative groups that kernels use most, where no vendor header has it: the block
// and its tiles of up to 32 lanes.
#pragma once

namespace cooperative_groups {

class thread_block {
 public:
  FETTLE_FN void sync() const { __syncthreads(); }
  FETTLE_FN unsigned thread_rank() const {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  FETTLE_FN unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  FETTLE_FN unsigned num_threads() const { return size(); }
};
FETTLE_FN thread_block this_thread_block() { return {}; }

template <unsigned N>
class thread_block_tile {
 public:
  static_assert(N <= 32 && (N & (N - 1)) == 0, "tiles have a power of two of up to 32 threads");
  FETTLE_FN void sync() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
  }
  FETTLE_FN unsigned thread_rank() const { return __lane_id() & (N - 1); }
  FETTLE_FN unsigned meta_group_rank() const { return this_thread_block().thread_rank() / N; }
  FETTLE_FN unsigned meta_group_size() const { return this_thread_block().size() / N; }
  FETTLE_FN static constexpr unsigned size() { return N; }
  FETTLE_FN static constexpr unsigned num_threads() { return N; }
  template <class T>
  FETTLE_FN T shfl(T v, int lane) const {
    return __shfl(v, lane, N);
  }
  template <class T>
  FETTLE_FN T shfl_up(T v, unsigned delta) const {
    return __shfl_up(v, delta, N);
  }
  template <class T>
  FETTLE_FN T shfl_down(T v, unsigned delta) const {
    return __shfl_down(v, delta, N);
  }
  template <class T>
  FETTLE_FN T shfl_xor(T v, unsigned lanes) const {
    return __shfl_xor(v, static_cast<int>(lanes), N);
  }
  FETTLE_FN unsigned ballot(int p) const {
    const unsigned first = __lane_id() & 63u & ~(N - 1);
    const unsigned mask = N == 32 ? ~0u : (1u << (N & 31)) - 1u;
    return static_cast<unsigned>(__ballot(p) >> first) & mask;
  }
  FETTLE_FN int any(int p) const { return ballot(p) != 0; }
  FETTLE_FN int all(int p) const { return ballot(p) == ballot(1); }
};
template <unsigned N, class Group>
FETTLE_FN thread_block_tile<N> tiled_partition(const Group&) {
  return {};
}

template <class Group>
FETTLE_FN void sync(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups
