// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace fettle {

enum class Vendor { kCpu, kNvidia, kAmd };
enum class Dialect { kCuda, kHip };
std::string_view DialectName(Dialect dialect);  // "cuda", "hip"
std::optional<Dialect> ParseDialect(std::string_view name);

// An architecture with the limits that expressions (`target.*`) and launch checks need. A
// device overrides what it reports itself.
struct Target {
  std::string name;  // "cpu", "sm_90a", "gfx950", ...
  Vendor vendor = Vendor::kCpu;
  std::int64_t wave = 32;         // Lanes of a warp or wave.
  std::int64_t lds = 0;           // Most shared memory of one block after opting in, bytes.
  std::int64_t lds_static = 0;    // Most without opting in, bytes.
  std::int64_t cus = 0;           // SMs or CUs; cores on cpu.
  std::int64_t max_block = 1024;  // Threads of one block.
  std::int64_t max_grid[3] = {2147483647, 65535, 65535};
  std::int64_t max_block_dim[3] = {1024, 1024, 64};
  std::int64_t registers = 0;  // 32-bit registers per SM or CU.
  std::int64_t cache = 0;      // Last-level cache (L2 + MALL), bytes.
};

// Values that `target.<key>` may name in expressions: wave, lds, lds_static, cus, max_block,
// registers, cache.
std::map<std::string, std::int64_t> TargetVariables(const Target& target);

// The built-in target of that name. kNotFound lists the known names.
absl::StatusOr<Target> FindTarget(std::string_view name);

}  // namespace fettle
