// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "compiler/facts/facts_readers.h"
#include "core/code_object/msgpack.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-" -> "gfx90a"
std::string ArchOf(const std::string& isa) {
  const std::size_t dashes = isa.rfind("--");
  const std::string tail = dashes == std::string::npos ? isa : isa.substr(dashes + 2);
  return tail.substr(0, tail.find(':'));
}

const ElfSymbol* FindSymbol(const ElfFile& elf, std::string_view name) {
  const auto found = std::find_if(elf.symbols.begin(), elf.symbols.end(),
                                  [&](const ElfSymbol& s) { return s.name == name; });
  return found == elf.symbols.end() ? nullptr : &*found;
}

// Where the accumulators begin in the unified file: compute_pgm_rsrc3 of the kernel descriptor.
std::int64_t AccumOffset(const ElfFile& elf, const std::string& kernel) {
  constexpr std::uint64_t kDescriptorBytes = 64, kRsrc3 = 44;
  const ElfSymbol* symbol = FindSymbol(elf, kernel + ".kd");
  if (symbol == nullptr) return -1;
  const ByteSpan descriptor = elf.AtAddress(symbol->value, kDescriptorBytes);
  if (descriptor.empty()) return -1;
  return ((LoadAt<std::uint32_t>(descriptor, kRsrc3) & 63) + 1) * std::int64_t{4};
}

KernelFacts FactsOf(const ElfFile& elf, const std::string& arch, const MsgpackValue& kernel) {
  KernelFacts facts{.name = kernel.Text(".name")};
  facts.registers = kernel.Number(".vgpr_count", -1);
  facts.accumulators = kernel.Number(".agpr_count", 0);
  facts.arch_vgprs = facts.registers;
  if (facts.accumulators > 0) {
    const std::int64_t offset = AccumOffset(elf, facts.name);
    facts.arch_vgprs = offset < 0 ? -1 : std::min(offset, facts.registers);
  }
  facts.sgprs = kernel.Number(".sgpr_count", -1);
  facts.vgpr_spills = kernel.Number(".vgpr_spill_count", -1);
  facts.sgpr_spills = kernel.Number(".sgpr_spill_count", -1);
  facts.local_bytes = kernel.Number(".private_segment_fixed_size", -1);
  facts.shared_bytes = kernel.Number(".group_segment_fixed_size", -1);
  facts.parameter_bytes = kernel.Number(".kernarg_segment_size", -1);
  facts.max_threads = kernel.Number(".max_flat_workgroup_size", -1);
  facts.occupancy_threads = std::max<std::int64_t>(facts.max_threads, 1);
  const Occupancy occupancy =
      AmdOccupancy(arch, facts.registers, facts.sgprs, facts.shared_bytes, facts.occupancy_threads);
  facts.occupancy_waves = occupancy.waves;
  facts.max_waves = occupancy.max_waves;
  facts.occupancy_limit = occupancy.limit;
  if (const ElfSymbol* symbol = FindSymbol(elf, facts.name); symbol != nullptr) {
    CountAmdInstructions(arch, elf.AtAddress(symbol->value, symbol->size), facts);
  }
  return facts;
}

}  // namespace

absl::StatusOr<CodeFacts> ReadAmdFacts(const ElfFile& elf) {
  FETTLE_ASSIGN_OR_RETURN(const MsgpackValue metadata, ReadAmdMetadata(elf));
  CodeFacts facts{
      .format = "amdgpu", .arch = ArchOf(metadata.Text("amdhsa.target")), .kernels = {}};
  if (const MsgpackValue* kernels = metadata.Find("amdhsa.kernels"); kernels != nullptr) {
    for (const MsgpackValue& kernel : kernels->items) {
      facts.kernels.push_back(FactsOf(elf, facts.arch, kernel));
    }
  }
  return facts;
}

}  // namespace fettle
