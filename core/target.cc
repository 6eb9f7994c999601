// SPDX-License-Identifier: Apache-2.0
#include "core/target.h"

#include <algorithm>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/portable_target.h"

namespace fettle {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

Target Nvidia(std::string name, std::int64_t sms, std::int64_t lds, std::int64_t cache) {
  Target target;
  target.name = std::move(name);
  target.vendor = Vendor::kNvidia;
  target.wave = 32;
  target.lds = lds;
  target.lds_static = 48 * kKiB;
  target.cus = sms;
  target.registers = 65536;
  target.cache = cache;
  return target;
}

Target Amd(std::string name, std::int64_t cus, std::int64_t lds, std::int64_t cache) {
  Target target;
  target.name = std::move(name);
  target.vendor = Vendor::kAmd;
  target.wave = 64;
  target.lds = lds;
  target.lds_static = lds;
  target.cus = cus;
  target.max_block_dim[2] = 1024;
  target.registers = 131072;
  target.cache = cache;
  return target;
}

// The CPU takes any kernel that fits some GPU, so its limits are the widest of theirs.
Target Cpu() {
  Target target;
  target.name = "cpu";
  target.vendor = Vendor::kCpu;
  target.wave = 32;
  target.lds = 227 * kKiB;
  target.lds_static = 227 * kKiB;
  target.cus = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  target.max_block_dim[2] = 1024;
  target.cache = 32 * kMiB;
  return target;
}

// Limits are those of the first architecture of that number.
Target Portable(std::string name, Target like) {
  like.name = std::move(name);
  return like;
}

// Sizes are of the largest common part of each architecture (MI250X die, MI300X, MI350X, A100,
// H100, B200); caches are L2 plus MALL.
const std::vector<Target>& Targets() {
  static const auto* const targets = new std::vector<Target>{
      Cpu(),
      Amd("gfx90a", 110, 64 * kKiB, 8 * kMiB),
      Amd("gfx942", 304, 64 * kKiB, (32 + 256) * kMiB),
      Amd("gfx950", 256, 160 * kKiB, (32 + 256) * kMiB),
      Nvidia("sm_80", 108, 163 * kKiB, 40 * kMiB),
      Nvidia("sm_90a", 132, 227 * kKiB, 50 * kMiB),
      Nvidia("sm_100a", 148, 227 * kKiB, 126 * kMiB),
      Portable("compute_80", Nvidia("sm_80", 108, 163 * kKiB, 40 * kMiB)),
      Portable("compute_90", Nvidia("sm_90", 132, 227 * kKiB, 50 * kMiB)),
      Portable("compute_100", Nvidia("sm_100", 148, 227 * kKiB, 126 * kMiB)),
  };
  return *targets;
}

}  // namespace

std::string_view DialectName(Dialect dialect) { return dialect == Dialect::kCuda ? "cuda" : "hip"; }

std::optional<Dialect> ParseDialect(std::string_view name) {
  if (name == "cuda") return Dialect::kCuda;
  if (name == "hip") return Dialect::kHip;
  return std::nullopt;
}

std::map<std::string, std::int64_t> TargetVariables(const Target& target) {
  return {{"wave", target.wave},
          {"lds", target.lds},
          {"lds_static", target.lds_static},
          {"cus", target.cus},
          {"max_block", target.max_block},
          {"registers", target.registers},
          {"cache", target.cache}};
}

absl::StatusOr<Target> FindTarget(std::string_view name) {
  std::vector<std::string> known;
  for (const Target& target : Targets()) {
    if (target.name == name) return target;
    known.push_back(target.name);
  }
  if (name.starts_with("compute_") && name.ends_with('a')) {
    return absl::NotFoundError(
        fmt::format("target '{}': PTX with features of one architecture runs on that one alone; "
                    "take sm_{} or {}",
                    name.substr(0, 64), name.substr(8, 64), name.substr(0, name.size() - 1)));
  }
  return absl::NotFoundError(fmt::format("unknown target '{}'; known targets: {}",
                                         name.substr(0, 64), fmt::join(known, ", ")));
}

bool IsPortable(const Target& target) { return target.name.starts_with("compute_"); }

absl::StatusOr<Target> FindDeviceTarget(std::string_view name) {
  absl::StatusOr<Target> target = FindTarget(name);
  if (target.ok() && IsPortable(*target)) {
    return absl::InvalidArgumentError(fmt::format(
        "target '{}' is PTX, which fettle makes for exports alone (fettle export --also "
        "{}); name a device's architecture, such as sm_90a",
        name, name));
  }
  return target;
}

}  // namespace fettle
