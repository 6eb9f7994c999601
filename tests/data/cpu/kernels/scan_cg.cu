// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <typename T, int N>
struct Pair {
  T v[N];
};
// inclusive scan per 32-wide tile then block offset, exercises ballot, match, cg tiles, templates
extern "C" __global__ void scan_cg(const int* in, int* out, int n) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  __shared__ int sums[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? in[i] : 0;
  for (unsigned d = 1; d < 32; d <<= 1) {
    int u = tile.shfl_up(v, d);
    if (tile.thread_rank() >= d) v += u;
  }
  if (tile.thread_rank() == 31) sums[tile.meta_group_rank()] = v;
  block.sync();
  int off = 0;
  for (unsigned k = 0; k < tile.meta_group_rank(); ++k) off += sums[k];
  if (i < n) out[i] = v + off;
}
