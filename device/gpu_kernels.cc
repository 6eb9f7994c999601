// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_kernels.h"

#include <fmt/format.h>

#include "device/kernel_images.h"

namespace fettle {

absl::StatusOr<std::string> KernelImage(const Target& target) {
  const std::string wanted =
      target.vendor == Vendor::kNvidia ? "kernels.ptx" : fmt::format("kernels.{}.co", target.name);
  for (const EmbeddedFile& file : KernelImages()) {
    if (file.name == wanted) return std::string(file.bytes);
  }
  return absl::NotFoundError(
      fmt::format("kernels of fettle on {}: none for this target", target.name));
}

}  // namespace fettle
