// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "compiler/facts/facts_readers.h"

namespace fettle {
namespace {

// EIATTR numbers of the records in .nv.info and .nv.info.<kernel>.
constexpr unsigned kMaxThreads = 0x05, kRequiredBlock = 0x10, kFrameSize = 0x11,
                   kParameterBytes = 0x19, kRegisterCount = 0x2f, kBarriers = 0x4c;
constexpr unsigned kSized = 4;  // Record format: a 2-byte size and that many bytes.
constexpr std::int64_t kReservedShared =
    1024;  // The system's own, first in .nv.shared since sm_90.

struct Kernel {
  KernelFacts facts;
  ByteSpan code;
  std::int64_t shared_bytes = 0;
};
using Kernels = std::map<std::string, Kernel>;

void ReadRecord(const ElfFile& elf, const std::string& kernel, unsigned attribute, ByteSpan payload,
                Kernels& kernels) {
  if (kernel.empty()) {  // Of the whole file: symbol, number.
    const auto symbol = LoadAt<std::uint32_t>(payload, 0);
    const std::int64_t number = LoadAt<std::uint32_t>(payload, 4);
    if (payload.size() < 8 || symbol >= elf.dynsym_first) return;
    KernelFacts& facts = kernels[elf.symbols[symbol].name].facts;
    if (attribute == kRegisterCount) facts.registers = number;
    if (attribute == kFrameSize) facts.local_bytes = number;
    return;
  }
  if (payload.size() < 12 || (attribute != kMaxThreads && attribute != kRequiredBlock)) return;
  std::int64_t threads = 1;
  for (std::uint64_t axis = 0; axis < 3; ++axis) {
    const auto dim = LoadAt<std::uint32_t>(payload, axis * 4);
    threads *= std::clamp<std::int64_t>(dim, 1, 1 << 16);
  }
  kernels[kernel].facts.max_threads = threads;
}

// A record is: format, attribute, then a 2-byte value, or a 2-byte size and a payload.
void ReadInfo(const ElfFile& elf, const std::string& kernel, ByteSpan info, Kernels& kernels) {
  for (std::uint64_t at = 0; at + 4 <= info.size();) {
    const unsigned format = info[at], attribute = info[at + 1];
    const auto value = LoadAt<std::uint16_t>(info, at + 2);
    at += 4;
    if (format != kSized) {
      if (kernel.empty()) continue;
      if (attribute == kParameterBytes) kernels[kernel].facts.parameter_bytes = value;
      if (attribute == kBarriers) kernels[kernel].facts.named_barriers = value & 0xff;
      continue;
    }
    if (value > info.size() - at) break;
    ReadRecord(elf, kernel, attribute, info.subspan(at, value), kernels);
    at += (value + 3U) & ~3U;
  }
}

std::string After(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
}

void Finish(int sm, const std::string& name, Kernel& kernel) {
  KernelFacts& facts = kernel.facts;
  facts.name = name;
  facts.shared_bytes = kernel.shared_bytes;
  if (sm >= 90 && facts.shared_bytes >= kReservedShared) facts.shared_bytes -= kReservedShared;
  if (facts.max_threads < 0) facts.max_threads = 0;
  constexpr std::int64_t kAssumedThreads = 256;
  facts.occupancy_threads = facts.max_threads > 0 ? facts.max_threads : kAssumedThreads;
  const Occupancy occupancy =
      NvidiaOccupancy(sm, facts.registers, facts.shared_bytes, facts.occupancy_threads);
  facts.occupancy_waves = occupancy.waves;
  facts.max_waves = occupancy.max_waves;
  facts.occupancy_limit = occupancy.limit;
  CountCubinInstructions(kernel.code, facts);
}

// SASS opcodes: the low 12 bits of each 16-byte instruction. sm_80 to sm_100 agree on these.
struct Opcode {
  unsigned code;
  const char* name;  // Class, or name of a matrix instruction.
  bool matrix = false;
  bool sized = false;  // Bits 73 to 75 hold the width.
};
constexpr Opcode kOpcodes[] = {
    {0x23c, "HMMA", true},
    {0x237, "IMMA", true},
    {0x23f, "DMMA", true},
    {0x9f0, "HGMMA", true},
    {0x27a, "QMMA", true},
    {0x5ea, "UTCMMA", true},
    {0xdea, "UTCMMA", true},
    {0x981, "global_load", false, true},
    {0x986, "global_store", false, true},
    {0x984, "lds_read", false, true},
    {0x988, "lds_write", false, true},
    {0x388, "lds_write", false, true},
    {0x983, "local_load", false, true},
    {0x387, "local_store", false, true},
    {0x987, "local_store", false, true},
    {0x980, "flat_load", false, true},
    {0x985, "flat_store", false, true},
    {0x83b, "lds_read_matrix"},
    {0x844, "lds_write_matrix"},
    {0xfae, "global_to_lds"},
    {0x5b4, "tensor_load"},
    {0x9b5, "tensor_store"},
    {0x3b5, "tensor_store"},
    {0x3ba, "bulk_copy"},
    {0xb1d, "barrier"},
    {0xf89, "lane_exchange"},
    {0x9a2, "flat_atomic"},
    {0x98e, "global_atomic"},
    {0x9a6, "global_atomic"},
    {0x3a9, "global_atomic"},
    {0x3a8, "global_atomic"},
    {0x38d, "lds_atomic"},
    {0x58d, "lds_atomic"},
    {0xf8c, "lds_atomic"},
    {0x58c, "lds_atomic"},
    {0x308, "special_function"},
};
constexpr unsigned kNop = 0x918;

const Opcode* FindOpcode(unsigned code) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.code == code) return &opcode;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<CodeFacts> ReadCubinFacts(const ElfFile& elf) {
  constexpr unsigned kNewAbi = 8;  // Since then the architecture is in the flags' second byte.
  const int sm =
      static_cast<int>(elf.abi_version >= kNewAbi ? elf.flags >> 8 & 0xff : elf.flags & 0xff);
  Kernels kernels;
  for (const ElfSection& section : elf.sections) {
    if (const std::string code = After(section.name, ".text."); !code.empty()) {
      kernels[code].code = section.bytes;
    } else if (const std::string shared = After(section.name, ".nv.shared."); !shared.empty()) {
      constexpr std::uint64_t kSane = std::uint64_t{1} << 32;
      kernels[shared].shared_bytes = static_cast<std::int64_t>(std::min(section.size, kSane));
    } else if (section.name == ".nv.info") {
      ReadInfo(elf, "", section.bytes, kernels);
    } else if (const std::string info = After(section.name, ".nv.info."); !info.empty()) {
      ReadInfo(elf, info, section.bytes, kernels);
    }
  }
  CodeFacts facts{.format = "cubin", .arch = fmt::format("sm_{}", sm), .kernels = {}};
  for (auto& [name, kernel] : kernels) {
    if (kernel.code.empty()) continue;
    Finish(sm, name, kernel);
    facts.kernels.push_back(std::move(kernel.facts));
  }
  return facts;
}

void CountCubinInstructions(ByteSpan code, KernelFacts& facts) {
  static constexpr std::array kWidths{"b8", "b8", "b16", "b16", "b32", "b64", "b128", "b256"};
  std::int64_t total = 0;
  for (std::uint64_t at = 0; at + 16 <= code.size(); at += 16) {
    const auto low = LoadAt<std::uint64_t>(code, at);
    const auto high = LoadAt<std::uint64_t>(code, at + 8);
    const unsigned code_bits = low & 0xfff;
    if (code_bits == kNop) continue;
    ++total;
    const Opcode* opcode = FindOpcode(code_bits);
    if (opcode == nullptr) continue;
    if (opcode->matrix) {
      ++facts.matrix[opcode->name];
    } else if (opcode->sized) {
      ++facts.instructions[fmt::format("{}.{}", opcode->name, kWidths[high >> 9 & 7])];
    } else {
      ++facts.instructions[opcode->name];
    }
  }
  facts.instructions["instructions"] = total;
}

}  // namespace fettle
