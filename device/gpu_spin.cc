// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_spin.h"

#include <fmt/format.h>

#include "device/spin_images.h"

namespace fettle {

absl::StatusOr<std::string> SpinImage(const Target& target) {
  const std::string wanted =
      target.vendor == Vendor::kNvidia ? "spin.ptx" : fmt::format("spin.{}.co", target.name);
  for (const EmbeddedFile& file : SpinImages()) {
    if (file.name == wanted) return std::string(file.bytes);
  }
  return absl::NotFoundError(
      fmt::format("spin on {}: no calibration kernel for this target", target.name));
}

}  // namespace fettle
