// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

// Messages over a stream socket: a JSON object and raw bytes beside it. Header: u32 size of the
// JSON, u64 size of the bytes, both little-endian.
struct Frame {
  nlohmann::json json;
  std::vector<std::uint8_t> bytes;
};

using FrameClock = std::chrono::steady_clock;

// Errors: kDeadlineExceeded, kAborted (the other side closed or died), kInvalidArgument (a
// malformed frame or one over the limits), kInternal (any other socket error).
absl::Status WriteFrame(int fd, const nlohmann::json& json,
                        std::span<const std::span<const std::uint8_t>> bytes,
                        FrameClock::time_point deadline);
absl::StatusOr<Frame> ReadFrame(int fd, FrameClock::time_point deadline);

}  // namespace fettle
