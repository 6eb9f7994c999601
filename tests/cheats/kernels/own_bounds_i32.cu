#include <cuda_runtime.h>
template <typename I>
__global__ void bounds_check_indices(const long long* rows_per_table, I* indices, const I* offsets,
                         long long* warning, int tables, int batch, int mode) {
  const int table = blockIdx.x;
  if (threadIdx.x != 0) return;
  const int rows = (int)rows_per_table[table];
  int bad = 0;
  const long long end = offsets[(long long)(table + 1) * batch];
  for (long long i = offsets[(long long)table * batch]; i < end; ++i) {
    const int index = (int)indices[i];   // 32 bits are enough ... for indices that are not bad.
    const bool wrong = index != -1 && (unsigned)index >= (unsigned)rows;
    bad += wrong;
    if (wrong) indices[i] = 0;
  }
  if (mode == 1 && bad) atomicAdd((unsigned long long*)warning, (unsigned long long)bad);
}
