// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace fettle {

std::string ZstdCompress(std::string_view bytes);
// kDataLoss: not a zstd frame, or longer than `limit_bytes` once unpacked.
absl::StatusOr<std::string> ZstdDecompress(std::string_view bytes, std::uint64_t limit_bytes);

// Larger documents than this are refused when read.
inline constexpr std::uint64_t kMaxDocumentBytes = 256ULL << 20;

}  // namespace fettle
