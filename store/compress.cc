// SPDX-License-Identifier: Apache-2.0
#include "store/compress.h"

#include <fmt/format.h>
#include <zstd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr int kLevel = 3;

}  // namespace

std::string ZstdCompress(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  FETTLE_CHECK(ZSTD_isError(size) == 0);  // Cannot fail: the buffer has the bound's size.
  out.resize(size);
  return out;
}

absl::StatusOr<std::string> ZstdDecompress(std::string_view bytes, std::uint64_t limit_bytes) {
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
    return absl::DataLossError("unpack: not a zstd frame of known size");
  }
  if (size > limit_bytes) {
    return absl::DataLossError(
        fmt::format("unpack: {} bytes exceed the limit of {}", size, limit_bytes));
  }
  std::string out(size, '\0');
  const std::size_t got = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != out.size()) {
    return absl::DataLossError(fmt::format(
        "unpack: {}", ZSTD_isError(got) != 0 ? ZSTD_getErrorName(got) : "wrong length"));
  }
  return out;
}

}  // namespace fettle
