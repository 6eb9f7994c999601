// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

// fettle's own kernels, in one loadable image: PTX on NVIDIA, a code object on AMD
// (device/kernels). kNotFound: none for this target.
absl::StatusOr<std::string> KernelImage(const Target& target);

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

}  // namespace fettle
