// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/device.h"

namespace fettle {

// Dense input bytes of every tensor of a case, in case order (verifier/inputs.h makes them); empty
// for pure outputs and null tensors.
using CaseInputs = std::vector<std::vector<std::uint8_t>>;

inline constexpr std::uint8_t kPaddingByte = 0xA5;     // Of integer inputs.
inline constexpr std::uint8_t kPaddingNanByte = 0xFF;  // Of float inputs: NaN.

// The inputs of a case as they lie in memory, padding included (NaN or 0xA5), in device memory of
// their own: what buffers are written from, again and again. Never given to a kernel. Must not
// outlive its device.
class CaseImages {
 public:
  // `touched`: for each tensor, rows that the operator may change of an inout tensor and that are
  // therefore restored (nothing: all of them); may be empty altogether. Errors are those of
  // device.h.
  static absl::StatusOr<std::shared_ptr<const CaseImages>> Make(
      Device& device, const BoundCase& bound_case, const CaseInputs& inputs,
      const std::vector<std::optional<std::vector<std::int64_t>>>& touched = {});

  // Null for pure outputs, null tensors and empty ones.
  const DeviceBuffer* tensor(std::int64_t index) const {
    return images_[static_cast<std::size_t>(index)].get();
  }
  // Byte ranges (offset, size) of an inout tensor that a restore rewrites.
  const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges(std::int64_t index) const {
    return ranges_[static_cast<std::size_t>(index)];
  }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  std::vector<std::unique_ptr<DeviceBuffer>> images_;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges_;
  std::int64_t size_bytes_ = 0;
};

}  // namespace fettle
