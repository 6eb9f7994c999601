// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and vectors of small symmetric matrices by one-sided Jacobi rotations. A shift makes
// A definite, so that the columns of G = A + shift I, rotated until they are orthogonal, are
// eigenvectors times eigenvalues: one matrix instead of two, and only columns turn. Columns live in
// registers, one or two a lane, and meet by exclusive or: in step s of a sweep column i meets
// column i ^ s, so that each pair meets once, all of a step at the same time, without shared memory
// or barriers. Small matrices share a warp.
#include <cuda_runtime.h>

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int { kMaxSweeps = 14 };

// Rotates this lane's column against that of lane ^ mask. Both lanes find the same angle.
template <int N>
__device__ __forceinline__ bool Meet(float (&own)[N], float& square, int mask, int lane) {
  float other[N], across = 0;
#pragma unroll
  for (int r = 0; r < N; ++r) {
    other[r] = __shfl_xor_sync(0xffffffffu, own[r], mask);
    across += own[r] * other[r];
  }
  const float other_square = __shfl_xor_sync(0xffffffffu, square, mask);
  const bool low =
      (lane & mask) < (~lane & mask);  // Of the pair, the one whose highest differing bit is 0.
  const float p = low ? square : other_square, q = low ? other_square : square;
  const bool turn = across * across > 9e-14f * p * q;
  float tangent = 0;
  if (turn) {
    const float theta = (q - p) / (2.0f * across);
    tangent = copysignf(1.0f / (fabsf(theta) + sqrtf(1.0f + theta * theta)), theta);
  }
  const float cosine = 1.0f / sqrtf(1.0f + tangent * tangent);
  const float sine = low ? -tangent * cosine : tangent * cosine;
#pragma unroll
  for (int r = 0; r < N; ++r) own[r] = cosine * own[r] + sine * other[r];
  square = low ? square - tangent * across : square + tangent * across;
  return turn;
}

// The same for two columns of one lane.
template <int N>
__device__ __forceinline__ bool MeetInside(float (&x)[N], float (&y)[N], float& p, float& q) {
  float across = 0;
#pragma unroll
  for (int r = 0; r < N; ++r) across += x[r] * y[r];
  const bool turn = across * across > 9e-14f * p * q;
  float tangent = 0;
  if (turn) {
    const float theta = (q - p) / (2.0f * across);
    tangent = copysignf(1.0f / (fabsf(theta) + sqrtf(1.0f + theta * theta)), theta);
  }
  const float cosine = 1.0f / sqrtf(1.0f + tangent * tangent), sine = tangent * cosine;
#pragma unroll
  for (int r = 0; r < N; ++r) {
    const float a = x[r], b = y[r];
    x[r] = cosine * a - sine * b;
    y[r] = sine * a + cosine * b;
  }
  p -= tangent * across;
  q += tangent * across;
  return turn;
}

// This lane's column times that of lane ^ mask.
template <int N>
__device__ __forceinline__ float Across(const float (&own)[N], const float (&theirs)[N], int mask) {
  float across = 0;
#pragma unroll
  for (int r = 0; r < N; ++r) across += own[r] * __shfl_xor_sync(0xffffffffu, theirs[r], mask);
  return across;
}

template <int N>
__device__ __forceinline__ float SquareOf(const float (&column)[N]) {
  float sum = 0;
#pragma unroll
  for (int r = 0; r < N; ++r) sum += column[r] * column[r];
  return sum;
}

// N: the size, rounded up to a power of two; rows and columns beyond n are zero and never turn.
template <int N>
__global__ void __launch_bounds__(32 * WARPS)
    eigh_columns(const float* a, float* w, float* q, int batch, int n) {
  constexpr int kLanes = N < 32 ? N : 32, kSlots = N / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int which = blockIdx.x * (32 * WARPS / kLanes) + threadIdx.x / kLanes;
  const bool live = which < batch;  // Lanes without a matrix go through the exchanges with zeros.
  const long long start = static_cast<long long>(which) * n * n;
  float columns[kSlots][N], squares[kSlots];
  float largest = 0;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int col = s * 32 + lane;
#pragma unroll
    for (int r = 0; r < N; ++r) {
      const int low = r > col ? r : col, high = r > col ? col : r;  // Of the lower triangle.
      columns[s][r] = live && low < n ? a[start + low * n + high] : 0.0f;
      largest = fmaxf(largest, fabsf(columns[s][r]));
    }
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  }
  // Scaled so that squares neither overflow nor vanish.
  const float scale = largest > 0.0f ? largest : 1.0f;
  float fourth = 0;  // The eigenvalues' fourth powers: the squares of all products of columns.
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
#pragma unroll
    for (int r = 0; r < N; ++r) columns[s][r] /= scale;
    squares[s] = SquareOf(columns[s]);
    fourth += squares[s] * squares[s];
  }
#pragma unroll 1
  for (int mask = 0; mask < kLanes; ++mask) {
    if (mask > 0) {
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        const float across = Across(columns[s], columns[s], mask);
        fourth += across * across;
      }
    }
    if (kSlots == 2) {
      const float across = Across(columns[0], columns[kSlots - 1], mask);
      fourth += 2 * across * across;
    }
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    fourth += __shfl_xor_sync(0xffffffffu, fourth, offset);
  // No eigenvalue is larger than the fourth root, and what is added to all costs digits.
  const float shift = fourth > 0.0f ? 1.25f * sqrtf(sqrtf(fourth)) : 1.0f;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
#pragma unroll
    for (int r = 0; r < N; ++r) columns[s][r] += r == s * 32 + lane && r < n ? shift : 0.0f;
  }
#pragma unroll 1
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool turned = false;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) squares[s] = SquareOf(columns[s]);
#pragma unroll 1
    for (int mask = 1; mask < kLanes; ++mask) {
#pragma unroll
      for (int s = 0; s < kSlots; ++s) turned = Meet(columns[s], squares[s], mask, lane) || turned;
    }
    if (kSlots == 2) {
      turned =
          MeetInside(columns[0], columns[kSlots - 1], squares[0], squares[kSlots - 1]) || turned;
#pragma unroll 1
      for (int mask = 1; mask < kLanes; ++mask) {
        // Of a pair one lane swaps its columns, so that each meets the other lane's other one.
        const bool swap = (lane & mask) > (~lane & mask);
#pragma unroll
        for (int turn = 0; turn < 2; ++turn) {
#pragma unroll
          for (int r = 0; r < N; ++r) {
            const float x = columns[0][r], y = columns[kSlots - 1][r];
            columns[0][r] = swap ? y : x;
            columns[kSlots - 1][r] = swap ? x : y;
          }
          const float x = squares[0], y = squares[kSlots - 1];
          squares[0] = swap ? y : x;
          squares[kSlots - 1] = swap ? x : y;
          if (turn == 1) break;
#pragma unroll
          for (int s = 0; s < kSlots; ++s)
            turned = Meet(columns[s], squares[s], mask, lane) || turned;
        }
      }
    }
    if (__ballot_sync(0xffffffffu, turned) == 0) break;
  }
  // In ascending order, each vector with a sum of components that is not negative.
  float lengths[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) lengths[s] = sqrtf(SquareOf(columns[s]));
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int col = s * 32 + lane;
    int rank = 0;
    float sum = 0;
#pragma unroll
    for (int t = 0; t < kSlots; ++t) {
      for (int i = 0; i < kLanes; ++i) {
        const int at = t * 32 + i;
        const float length = __shfl_sync(0xffffffffu, lengths[t], i, kLanes);
        rank += at < n && (length < lengths[s] || (length == lengths[s] && at < col)) ? 1 : 0;
      }
    }
#pragma unroll
    for (int r = 0; r < N; ++r) sum += columns[s][r];
    if (!live || col >= n) continue;
    w[static_cast<long long>(which) * n + rank] = (lengths[s] - shift) * scale;
    const float unit = (sum < 0.0f ? -1.0f : 1.0f) / lengths[s];
#pragma unroll
    for (int r = 0; r < N; ++r) {
      if (r < n) q[start + static_cast<long long>(r) * n + rank] = columns[s][r] * unit;
    }
  }
}
