// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_kernels.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/kernel_images.h"

namespace fettle {

namespace {

absl::StatusOr<std::string> ImageNamed(const std::string& wanted, const Target& target) {
  for (const EmbeddedFile& file : KernelImages()) {
    if (file.name == wanted) return std::string(file.bytes);
  }
  return absl::NotFoundError(
      fmt::format("kernels of fettle on {}: none for this target", target.name));
}

// A probe of a target: its image, and what one repeat of one block multiplies.
struct Probe {
  std::string_view target;
  int bits;
  std::string_view image;
  std::int64_t blocks_per_cu;
  double products;  // Of a block's repeat; two operations each.
};
constexpr double kWarpgroup = 2 * 4.0 * 64 * 256;  // Two warpgroups, four m64n256 steps.
constexpr double kWarp = 8 * 8.0 * 16 * 8 * 16;    // Eight warps, eight m16n8k16.
constexpr double kWave = 4 * 4.0 * 32 * 32;        // Four waves, four 32x32 instructions.
constexpr Probe kProbes[] = {
    {"sm_90a", 16, "matrix.sm_90a.ptx", 1, kWarpgroup * 16},
    {"sm_90a", 8, "matrix.sm_90a.ptx", 1, kWarpgroup * 32},
    {"sm_80", 16, "matrix.ptx", 2, kWarp},
    {"sm_86", 16, "matrix.ptx", 2, kWarp},
    {"sm_89", 16, "matrix.ptx", 2, kWarp},
    {"sm_120", 16, "matrix.ptx", 2, kWarp},
    {"sm_120a", 16, "matrix.ptx", 2, kWarp},
    {"gfx90a", 16, "kernels.gfx90a.co", 2, kWave * 8},
    {"gfx942", 16, "kernels.gfx942.co", 2, kWave * 8},
    {"gfx942", 8, "kernels.gfx942.co", 2, kWave * 16},
    {"gfx950", 16, "kernels.gfx950.co", 2, kWave * 16},
    {"gfx950", 8, "kernels.gfx950.co", 2, kWave * 64},
};

}  // namespace

absl::StatusOr<std::vector<std::string>> OwnKernelImages(const Target& target) {
  std::vector<std::string> images;
  if (target.vendor == Vendor::kNvidia) {
    auto cubin = ImageNamed(fmt::format("kernels.{}.cubin", target.name), target);
    if (cubin.ok()) images.push_back(*std::move(cubin));
    FETTLE_ASSIGN_OR_RETURN(images.emplace_back(), ImageNamed("kernels.ptx", target));
  } else {
    FETTLE_ASSIGN_OR_RETURN(images.emplace_back(),
                            ImageNamed(fmt::format("kernels.{}.co", target.name), target));
  }
  return images;
}

std::optional<std::uint64_t> DrawFormat(DType dtype) {
  switch (dtype) {  // As in device/kernels/draw.h.
    case DType::kF64:
      return 0;
    case DType::kF32:
      return 1;
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 3;
    case DType::kI64:
      return 4;
    case DType::kI32:
      return 5;
    case DType::kI16:
      return 6;
    case DType::kI8:
    case DType::kU8:
      return 7;
    case DType::kBool:
      return 8;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<MatrixProbe> MatrixProbeFor(const Target& target, int bits) {
  for (const Probe& probe : kProbes) {
    if (probe.target != target.name || probe.bits != bits) continue;
    MatrixProbe found;
    FETTLE_ASSIGN_OR_RETURN(found.image, ImageNamed(std::string(probe.image), target));
    found.symbol = fmt::format("fettle_matrix{}", bits);
    found.blocks_per_cu = probe.blocks_per_cu;
    found.flops_per_block_repeat = 2 * probe.products;
    return found;
  }
  return absl::NotFoundError(
      fmt::format("matrix rate of {} at {} bits: no probe reaches it", target.name, bits));
}

}  // namespace fettle
