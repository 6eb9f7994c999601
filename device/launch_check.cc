// SPDX-License-Identifier: Apache-2.0
#include "device/launch_check.h"

namespace fettle {
namespace {

constexpr char kAxes[] = {'x', 'y', 'z'};

absl::Status CheckAxis(std::string_view what, std::size_t axis, std::int64_t value,
                       std::int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("launch: {}.{} is {}, allowed is 1 to {}", what, kAxes[axis], value, limit));
}

}  // namespace

absl::Status CheckLaunch(const LaunchConfig& config, const Target& target,
                         std::int64_t static_shared_bytes) {
  std::int64_t threads = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    absl::Status grid = CheckAxis("grid", axis, config.grid[axis], target.max_grid[axis]);
    if (!grid.ok()) return grid;
    absl::Status block = CheckAxis("block", axis, config.block[axis], target.max_block_dim[axis]);
    if (!block.ok()) return block;
    threads *= config.block[axis];
  }
  if (threads > target.max_block) {
    return absl::InvalidArgumentError(
        fmt::format("launch: block {}x{}x{} has {} threads, {} allows {}", config.block[0],
                    config.block[1], config.block[2], threads, target.name, target.max_block));
  }
  if (config.shared_bytes < 0 || config.shared_bytes + static_shared_bytes > target.lds) {
    return absl::InvalidArgumentError(
        fmt::format("launch: {} bytes of dynamic and {} of static shared memory, {} allows {}",
                    config.shared_bytes, static_shared_bytes, target.name, target.lds));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const DeviceBuffer& buffer, std::int64_t offset, std::int64_t size_bytes,
                        std::string_view what) {
  if (offset >= 0 && size_bytes >= 0 && offset <= buffer.size_bytes() &&
      size_bytes <= buffer.size_bytes() - offset) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("{}: {} bytes at offset {} of a buffer of {}", what,
                                                size_bytes, offset, buffer.size_bytes()));
}

}  // namespace fettle
