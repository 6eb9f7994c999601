// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a code object's own bytes say of its kernels, without vendor tools and without a GPU.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

// -1 stands for "the object does not say".
struct KernelFacts {
  std::string name;                // Symbol.
  std::int64_t registers = -1;     // Per thread: NVIDIA registers; AMD VGPRs in total.
  std::int64_t arch_vgprs = -1;    // AMD: of these, ordinary ones ...
  std::int64_t accumulators = -1;  // ... and AGPRs.
  std::int64_t sgprs = -1;         // AMD.
  std::int64_t vgpr_spills = -1;   // AMD: registers spilled; a cubin holds no such count.
  std::int64_t sgpr_spills = -1;
  std::int64_t local_bytes = -1;   // Scratch (AMD) or local frame (NVIDIA) per thread.
  std::int64_t shared_bytes = -1;  // Static LDS or shared memory of a block.
  std::int64_t parameter_bytes = -1;
  std::int64_t named_barriers = -1;  // NVIDIA.
  std::int64_t max_threads = -1;     // Of a block, as compiled for; 0: no bound.
  // At `occupancy_threads` threads a block and without dynamic shared memory, which no object
  // knows: waves per SIMD (AMD) or warps per multiprocessor (NVIDIA), of at most max_waves.
  std::int64_t occupancy_threads = 0;
  std::int64_t occupancy_waves = -1, max_waves = -1;
  std::string occupancy_limit;  // "none", "vgpr", "sgpr", "lds", "registers", "shared", ...
  // Instructions in the code, by class: "global_load.b128", "lds_read.b64", "barrier",
  // "global_atomic", ... and "instructions", all of them but padding. Empty: not decoded.
  std::map<std::string, std::int64_t> instructions;
  // Matrix instructions by name: "v_mfma_f32_32x32x16_f16"; NVIDIA by opcode: "HGMMA".
  std::map<std::string, std::int64_t> matrix;
};

struct CodeFacts {
  std::string format;  // "amdgpu", "cubin".
  std::string arch;    // "gfx950", "sm_90".
  std::int64_t size_bytes = 0;
  std::vector<KernelFacts> kernels;  // By name.

  const KernelFacts* Find(std::string_view symbol) const;
};

// Reads a code object of either vendor. kInvalidArgument: damaged, or neither an AMD code object
// nor a cubin (PTX and shared objects of the cpu target hold no such facts). `target`, unless
// empty, is what the object should be for: another architecture is kInvalidArgument too.
absl::StatusOr<CodeFacts> ReadFacts(std::string_view bytes, std::string_view target);

// Unknown values are left out.
nlohmann::json ToJson(const CodeFacts& facts);

// Waves per SIMD of a kernel on gfx90a, gfx942 or gfx950 with `lds_bytes` of LDS, static and
// dynamic, in blocks of `threads`; equal to LLVM's kernel-resource-usage remark.
struct Occupancy {
  std::int64_t waves = 0, max_waves = 0;
  std::string limit;
};
Occupancy AmdOccupancy(std::string_view arch, std::int64_t vgprs, std::int64_t sgprs,
                       std::int64_t lds_bytes, std::int64_t threads);
// Warps per multiprocessor; `sm` is 90 for sm_90a.
Occupancy NvidiaOccupancy(int sm, std::int64_t registers, std::int64_t shared_bytes,
                          std::int64_t threads);

}  // namespace fettle
