// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/dtype.h"
#include "device/device.h"

namespace fettle {

// The first `size_bytes` bytes of the pattern that guard bands hold: random by `key` and `stream`
// (which band), and NaN for floats. A shorter pattern is the beginning of a longer one.
std::vector<std::uint8_t> GuardPattern(DType dtype, std::uint64_t key, std::uint64_t stream,
                                       std::int64_t size_bytes);

// Guard patterns kept in device memory, so that bands are written and compared there. Only for a
// device that takes digests. Not thread-safe; must not outlive the device.
class GuardPatterns {
 public:
  GuardPatterns(Device& device, std::uint64_t key) : device_(device), key_(key) {}

  // Writes `size_bytes` bytes of the pattern at `offset`, in stream order.
  absl::Status Write(DType dtype, std::uint64_t stream, DeviceBuffer& to, std::int64_t offset,
                     std::int64_t size_bytes);
  // Their digest under `key` (of digests, not of the pattern).
  absl::StatusOr<DeviceDigest> DigestOf(DType dtype, std::uint64_t stream, std::int64_t size_bytes,
                                        std::uint64_t key, std::chrono::nanoseconds limit);

 private:
  struct Pattern {
    std::unique_ptr<DeviceBuffer> buffer;
    std::map<std::pair<std::int64_t, std::uint64_t>, DeviceDigest> digests;  // By size and key.
  };
  absl::StatusOr<Pattern*> Find(DType dtype, std::uint64_t stream, std::int64_t size_bytes);

  Device& device_;
  std::uint64_t key_;
  std::map<std::pair<DType, std::uint64_t>, Pattern> patterns_;
};

}  // namespace fettle
