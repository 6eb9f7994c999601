// SPDX-License-Identifier: Apache-2.0
#include "device/guard_patterns.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/status_macros.h"

namespace fettle {
namespace {

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One guard element: random bits that read as NaN where the dtype has NaN.
std::uint64_t GuardWord(DType dtype, std::uint64_t random) {
  switch (dtype) {
    case DType::kF64:
      return 0x7FF8000000000000ull | (random & 0x8007FFFFFFFFFFFFull);
    case DType::kF32:
      return 0x7FC00000u | (random & 0x803FFFFFu);
    case DType::kF16:
      return 0x7E00u | (random & 0x81FFu);
    case DType::kBF16:
      return 0x7FC0u | (random & 0x803Fu);
    case DType::kF8E4M3FN:
      return 0x7Fu | (random & 0x80u);
    case DType::kF8E5M2:
      return 0x7Eu | (random & 0x81u);
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
      return 0x80u;
    case DType::kF8E8M0:
      return 0xFFu;
    default:
      return random;
  }
}

}  // namespace

std::vector<std::uint8_t> GuardPattern(DType dtype, std::uint64_t key, std::uint64_t stream,
                                       std::int64_t size_bytes) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size_bytes));
  const auto element = static_cast<std::size_t>(SizeOf(dtype));
  std::uint64_t counter = Mix(Mix(key) ^ stream);
  for (std::size_t at = 0; at < bytes.size(); at += element) {
    const std::uint64_t word = GuardWord(dtype, Mix(counter++));
    std::memcpy(bytes.data() + at, &word, std::min(element, bytes.size() - at));
  }
  return bytes;
}

absl::StatusOr<GuardPatterns::Pattern*> GuardPatterns::Find(DType dtype, std::uint64_t stream,
                                                            std::int64_t size_bytes) {
  Pattern& pattern = patterns_[{dtype, stream}];
  if (pattern.buffer != nullptr && pattern.buffer->size_bytes() >= size_bytes) return &pattern;
  // What is known of its beginning stays true.
  FETTLE_ASSIGN_OR_RETURN(pattern.buffer, device_.Allocate(size_bytes));
  FETTLE_RETURN_IF_ERROR(
      device_.CopyIn(*pattern.buffer, 0, GuardPattern(dtype, key_, stream, size_bytes)));
  return &pattern;
}

absl::Status GuardPatterns::Write(DType dtype, std::uint64_t stream, DeviceBuffer& to,
                                  std::int64_t offset, std::int64_t size_bytes) {
  if (size_bytes == 0) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(Pattern * pattern, Find(dtype, stream, size_bytes));
  return device_.CopyDevice(to, offset, *pattern->buffer, 0, size_bytes);
}

absl::StatusOr<DeviceDigest> GuardPatterns::DigestOf(DType dtype, std::uint64_t stream,
                                                     std::int64_t size_bytes, std::uint64_t key,
                                                     std::chrono::nanoseconds limit) {
  FETTLE_ASSIGN_OR_RETURN(Pattern * pattern, Find(dtype, stream, size_bytes));
  const auto known = pattern->digests.find({size_bytes, key});
  if (known != pattern->digests.end()) return known->second;
  const std::array ranges{DeviceRange{pattern->buffer.get(), 0, size_bytes}};
  FETTLE_ASSIGN_OR_RETURN(const std::vector<DeviceDigest> digests,
                          device_.Digests(ranges, key, limit));
  return pattern->digests[{size_bytes, key}] = digests.front();
}

}  // namespace fettle
