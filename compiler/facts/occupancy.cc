// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "compiler/facts/code_facts.h"

namespace fettle {
namespace {

// Larger figures than any hardware has; keeps the arithmetic on damaged values from overflowing.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::int64_t Sane(std::int64_t value) { return std::clamp<std::int64_t>(value, 0, kMost); }

std::int64_t RoundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Multiprocessor {
  std::int64_t max_warps, max_blocks, shared_bytes, reserved_bytes;
};

Multiprocessor MultiprocessorOf(int sm) {
  constexpr std::int64_t kKiB = 1024;
  switch (sm) {
    case 75:
      return {32, 16, 64 * kKiB, 0};
    case 80:
      return {64, 32, 164 * kKiB, kKiB};
    case 86:
      return {48, 16, 100 * kKiB, kKiB};
    case 87:
      return {48, 16, 164 * kKiB, kKiB};
    case 89:
    case 120:
    case 121:
      return {48, 24, 100 * kKiB, kKiB};
    default:  // 90, 100, 103; others are unverified.
      return {64, 32, 228 * kKiB, kKiB};
  }
}

}  // namespace

Occupancy AmdOccupancy(std::string_view arch, std::int64_t vgprs, std::int64_t sgprs,
                       std::int64_t lds_bytes, std::int64_t threads) {
  // Four SIMDs of a compute unit, 64 lanes to a wave, 512 registers a lane in units of 8.
  constexpr std::int64_t kMaxWaves = 8, kVgprs = 512, kVgprUnit = 8, kSimds = 4, kLanes = 64;
  const bool large = arch == "gfx950";
  const std::int64_t lds_of_cu = (large ? 160 : 64) * std::int64_t{1024};
  const std::int64_t used = Sane(vgprs), lds = Sane(lds_bytes);
  const std::int64_t by_vgpr =
      used == 0 ? kMaxWaves : std::min(kMaxWaves, kVgprs / RoundUp(used, kVgprUnit));
  const std::int64_t by_sgpr = std::min<std::int64_t>(kMaxWaves, sgprs <= 80    ? 10
                                                                 : sgprs <= 88  ? 9
                                                                 : sgprs <= 100 ? 8
                                                                                : 7);
  std::int64_t by_lds = kMaxWaves;
  if (lds > 0) {
    // As LLVM counts: without rounding up to the unit of allocation (512 bytes; 1280 on gfx950,
    // where five groups of 32 KiB therefore count as fitting and four do).
    const std::int64_t groups = lds_of_cu / lds;
    const std::int64_t waves_of_group = RoundUp(Sane(threads), kLanes) / kLanes;
    by_lds = std::min(kMaxWaves, (groups * waves_of_group + kSimds - 1) / kSimds);
  }
  const std::int64_t waves = std::min({by_vgpr, by_sgpr, by_lds});
  return {waves, kMaxWaves,
          waves == kMaxWaves ? "none"
          : waves == by_vgpr ? "vgpr"
          : waves == by_lds  ? "lds"
                             : "sgpr"};
}

Occupancy NvidiaOccupancy(int sm, std::int64_t registers, std::int64_t shared_bytes,
                          std::int64_t threads) {
  constexpr std::int64_t kRegistersOfQuarter = 65536 / 4, kRegisterUnit = 256, kSharedUnit = 128;
  const Multiprocessor machine = MultiprocessorOf(sm);
  const std::int64_t warps = std::max<std::int64_t>(1, RoundUp(Sane(threads), 32) / 32);
  std::int64_t by_registers = std::numeric_limits<std::int64_t>::max();
  if (registers > 0) {
    by_registers = kRegistersOfQuarter / RoundUp(Sane(registers) * 32, kRegisterUnit) * 4 / warps;
  }
  const std::int64_t shared = RoundUp(Sane(shared_bytes) + machine.reserved_bytes, kSharedUnit);
  const std::int64_t by_shared = machine.shared_bytes / std::max<std::int64_t>(1, shared);
  const std::int64_t by_warps = machine.max_warps / warps;
  const std::int64_t blocks = std::min({by_registers, by_shared, by_warps, machine.max_blocks});
  return {blocks * warps, machine.max_warps,
          blocks * warps == machine.max_warps ? "none"
          : blocks == by_warps                ? "warps"
          : blocks == by_registers            ? "registers"
          : blocks == by_shared               ? "shared"
                                              : "blocks"};
}

}  // namespace fettle
