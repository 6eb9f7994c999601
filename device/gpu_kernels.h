// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "core/dtype.h"
#include "core/target.h"

namespace fettle {

// fettle's own kernels as loadable images, the first to try first (device/kernels): on NVIDIA a
// cubin, which older drivers may not take, then PTX; on AMD a code object. kNotFound: none for this
// target.
absl::StatusOr<std::vector<std::string>> OwnKernelImages(const Target& target);

// fettle_spin(unsigned long long ns, unsigned long long* out): one thread runs for `ns` of the
// device's own constant-rate timer and then writes the time it saw, unless `out` is null.
inline constexpr std::string_view kSpinSymbol = "fettle_spin";

// fettle_digest(const void* bytes, u64 size, u64 key, u64 blocks, u64* out): adds a keyed digest of
// the bytes to out[0] and out[1], which must hold zeros. Each 8-byte word is mixed with a mask
// drawn from the key and its position, so that whoever does not know the key cannot choose bytes
// with a given digest. Launch with `blocks` blocks of kDigestThreads; their number does not change
// the digest.
inline constexpr std::string_view kDigestSymbol = "fettle_digest";
inline constexpr std::int64_t kMostDigestBlocks = 1024, kDigestThreads = 256;

// fettle_draw(void* to, u64 count, u64 format, u64 kind, u64 a, u64 b, u64 low, u64 span, u64 seed,
// u64 blocks): `count` values as DrawnFill says (device/device.h), a and b as the bits of doubles,
// from the numbers of core/draw.h. Launch with `blocks` blocks of kDrawThreads.
inline constexpr std::string_view kDrawSymbol = "fettle_draw";
inline constexpr std::int64_t kMostDrawBlocks = 4096, kDrawThreads = 256;
// The kernel's number of a dtype; unset: it does not write that one.
std::optional<std::uint64_t> DrawFormat(DType dtype);

// A kernel that does nothing but dense matrix multiplications, at the device's full rate:
// SYMBOL(u64 repeats, float* out), which never writes `out`.
struct MatrixProbe {
  std::string image;   // Loadable on the target.
  std::string symbol;  // "fettle_matrix16", "fettle_matrix8".
  std::int64_t block_threads = 256, blocks_per_cu = 1;
  double flops_per_block_repeat = 0;
};
// The probe for elements of `bits` (16: bf16, 8: fp8, e4m3), accumulated in f32. kNotFound: none
// that reaches the full rate of this target, so the rate stays unknown.
absl::StatusOr<MatrixProbe> MatrixProbeFor(const Target& target, int bits);

}  // namespace fettle
