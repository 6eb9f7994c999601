// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/device.h"

namespace fettle {

// Writes the dense bytes of input tensor `index` of a case (verifier/inputs.h makes them). Not
// called for pure outputs, null tensors and empty ones.
using InputWriter = std::function<absl::Status(std::size_t index, std::span<std::uint8_t> dense)>;

// Writes it into the image on the device, where the values are drawn and the tensor is dense: false
// leaves it to the writer.
using InputDrawer = std::function<absl::StatusOr<bool>(std::size_t index, DeviceBuffer& image)>;

inline constexpr std::uint8_t kPaddingByte = 0xA5;     // Of integer inputs.
inline constexpr std::uint8_t kPaddingNanByte = 0xFF;  // Of float inputs: NaN.

// The inputs of a case as they lie in memory, padding included (NaN or 0xA5), in device memory of
// their own: what buffers are written from, again and again. Never given to a kernel. Must not
// outlive its device.
class CaseImages {
 public:
  // `touched`: for each tensor, rows that the operator may change of an inout tensor and that are
  // therefore restored (nothing: all of them); may be empty altogether. `staging` is memory on the
  // host that one call after another may use. `draw` may be empty. Errors are those of device.h and
  // of the callbacks.
  static absl::StatusOr<std::shared_ptr<const CaseImages>> Make(
      Device& device, const BoundCase& bound_case, const InputWriter& write,
      std::vector<std::uint8_t>& staging,
      const std::vector<std::optional<std::vector<std::int64_t>>>& touched = {},
      const InputDrawer& draw = {});

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
