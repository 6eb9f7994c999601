// SPDX-License-Identifier: Apache-2.0
// A decoder of the GFX9 encodings of CDNA (gfx90a, gfx942, gfx950): it finds the length of each
// instruction and sorts those that matter into classes. Opcodes and lengths were checked against
// LLVM's disassembler (tests/facts).
#include <array>
#include <optional>

#include <fmt/format.h>

#include "compiler/facts/amd_matrix_names.h"
#include "compiler/facts/facts_readers.h"

namespace fettle {
namespace {

constexpr std::uint32_t kLiteral = 255, kSdwa = 249, kDpp = 250;  // Source operand codes.

std::uint32_t Bits(std::uint32_t word, int high, int low) {
  return word >> low & ((std::uint32_t{1} << (high - low + 1)) - 1);
}

// Bytes of a scalar instruction (bits 31:30 are 10).
std::uint64_t ScalarLength(std::uint32_t word) {
  const std::uint32_t first = Bits(word, 7, 0), second = Bits(word, 15, 8);
  const std::uint32_t nine = Bits(word, 31, 23);
  if (nine == 0b101111111) return 4;                                                // SOPP
  if (nine == 0b101111101) return first == kLiteral ? 8 : 4;                        // SOP1
  if (nine == 0b101111110) return first == kLiteral || second == kLiteral ? 8 : 4;  // SOPC
  if (Bits(word, 31, 28) == 0b1011) return Bits(word, 27, 23) == 20 ? 8 : 4;        // SOPK
  return first == kLiteral || second == kLiteral ? 8 : 4;                           // SOP2
}

// Bytes of a short vector instruction (bit 31 is 0).
std::uint64_t VectorLength(std::uint32_t word) {
  const std::uint32_t source = Bits(word, 8, 0);
  if (source == kLiteral || source == kSdwa || source == kDpp) return 8;
  // v_madmk, v_madak and their fused forms carry a literal of their own.
  const std::uint32_t opcode = Bits(word, 30, 25);
  const bool madk = opcode == 23 || opcode == 24 || opcode == 36 || opcode == 37;
  return madk ? 8 : 4;
}

// Bytes of the instruction, 0 when it is none.
std::uint64_t LengthOf(std::uint32_t word) {
  if (Bits(word, 31, 31) == 0) return VectorLength(word);
  if (Bits(word, 31, 30) == 0b10) return ScalarLength(word);
  switch (Bits(word, 31, 26)) {
    case 0b110000:  // SMEM
    case 0b110100:  // VOP3, VOP3P
    case 0b110110:  // DS
    case 0b110111:  // FLAT, GLOBAL, SCRATCH
    case 0b111000:  // MUBUF
    case 0b111010:  // MTBUF
    case 0b111100:  // MIMG
      return 8;
    default:
      return 0;
  }
}

// Width in bits of the loads and stores that FLAT and MUBUF share, and the class's verb.
struct Access {
  const char* verb;
  int bits;
};
std::optional<Access> VectorMemoryAccess(std::uint32_t opcode) {
  static constexpr std::array kLoads{8, 8, 16, 16, 32, 64, 96, 128};   // From 16.
  static constexpr std::array kStores{8, 8, 16, 16, 32, 64, 96, 128};  // From 24.
  static constexpr std::array kD16{8, 8, 8, 8, 16, 16};                // From 32.
  if (opcode >= 16 && opcode < 24) return Access{"load", kLoads[opcode - 16]};
  if (opcode >= 24 && opcode < 32) return Access{"store", kStores[opcode - 24]};
  if (opcode >= 32 && opcode < 38) return Access{"load", kD16[opcode - 32]};
  return std::nullopt;
}

// Loads that go to LDS without passing through registers; bits, 0 when it is none.
int DirectToLds(std::uint32_t opcode) {
  switch (opcode) {
    case 38:
    case 39:
      return 8;
    case 40:
    case 41:
      return 16;
    case 42:
      return 32;
    case 126:
      return 96;
    case 125:
      return 128;
    default:
      return 0;
  }
}

std::string ClassOfFlat(std::uint32_t word) {
  static constexpr std::array kSegments{"flat", "scratch", "global", "flat"};
  const std::uint32_t opcode = Bits(word, 24, 18), segment = Bits(word, 15, 14);
  const char* name = kSegments[segment];
  if (const auto access = VectorMemoryAccess(opcode)) {
    return fmt::format("{}_{}.b{}", name, access->verb, access->bits);
  }
  if (const int bits = DirectToLds(opcode); bits > 0)
    return fmt::format("{}_to_lds.b{}", name, bits);
  if (opcode >= 64 && opcode < 110) return fmt::format("{}_atomic", name);
  return {};
}

std::string ClassOfBuffer(std::uint32_t word) {
  const std::uint32_t opcode = Bits(word, 24, 18);
  const bool to_lds = Bits(word, 16, 16) != 0;
  if (const auto access = VectorMemoryAccess(opcode)) {
    return to_lds ? fmt::format("buffer_to_lds.b{}", access->bits)
                  : fmt::format("buffer_{}.b{}", access->verb, access->bits);
  }
  if (opcode >= 64 && opcode < 110) return "buffer_atomic";
  return {};
}

std::string ClassOfLds(std::uint32_t word) {
  const std::uint32_t opcode = Bits(word, 24, 17);
  switch (opcode) {
    case 13:
      return "lds_write.b32";
    case 14:
    case 15:
      return "lds_write2.b32";
    case 30:
    case 84:
      return "lds_write.b8";
    case 31:
    case 85:
      return "lds_write.b16";
    case 77:
      return "lds_write.b64";
    case 78:
    case 79:
      return "lds_write2.b64";
    case 222:
      return "lds_write.b96";
    case 223:
      return "lds_write.b128";
    case 54:
      return "lds_read.b32";
    case 55:
    case 56:
      return "lds_read2.b32";
    case 57:
    case 58:
    case 86:
    case 87:
    case 88:
    case 89:
      return "lds_read.b8";
    case 59:
    case 60:
    case 90:
    case 91:
      return "lds_read.b16";
    case 118:
      return "lds_read.b64";
    case 119:
    case 120:
      return "lds_read2.b64";
    case 254:
      return "lds_read.b96";
    case 255:
      return "lds_read.b128";
    case 224:
    case 226:
    case 227:
      return "lds_read_transposed.b64";
    case 225:
      return "lds_read_transposed.b96";
    case 61:
    case 62:
    case 63:
      return "lane_exchange";
    default:
      break;
  }
  const bool atomic = opcode <= 12 || (opcode >= 16 && opcode <= 24 && opcode != 20) ||
                      (opcode >= 32 && opcode <= 53) || (opcode >= 64 && opcode <= 76) ||
                      (opcode >= 80 && opcode <= 83) || opcode == 92 ||
                      (opcode >= 96 && opcode <= 115) || opcode == 124 ||
                      (opcode >= 183 && opcode <= 184);
  return atomic ? "lds_atomic" : "";
}

const char* MatrixName(std::string_view arch, std::uint32_t word) {
  if (Bits(word, 31, 23) != 0b110100111) return nullptr;  // Not VOP3P.
  const int opcode = static_cast<int>(Bits(word, 22, 16));
  for (const AmdMatrixName& row : kAmdMatrixNames) {
    if (row.opcode != opcode) continue;
    return arch == "gfx950" ? row.gfx950 : arch == "gfx942" ? row.gfx942 : row.gfx90a;
  }
  return nullptr;
}

std::string ClassOf(std::uint32_t word) {
  constexpr std::uint32_t kBarrier = 10;
  if (Bits(word, 31, 23) == 0b101111111) return Bits(word, 22, 16) == kBarrier ? "barrier" : "";
  switch (Bits(word, 31, 26)) {
    case 0b110000: {
      const std::uint32_t opcode = Bits(word, 25, 18);
      const bool load = opcode <= 4 || (opcode >= 8 && opcode <= 12);
      return load ? fmt::format("scalar_load.b{}", 32 << (opcode & 7)) : "";
    }
    case 0b110110:
      return ClassOfLds(word);
    case 0b110111:
      return ClassOfFlat(word);
    case 0b111000:
      return ClassOfBuffer(word);
    default:
      return {};
  }
}

bool Known(std::string_view arch) {
  return arch == "gfx90a" || arch == "gfx942" || arch == "gfx950";
}

}  // namespace

bool CountAmdInstructions(std::string_view arch, ByteSpan code, KernelFacts& facts) {
  if (!Known(arch) || code.empty()) return false;
  KernelFacts counted;
  std::int64_t total = 0;
  for (std::uint64_t at = 0; at + 4 <= code.size();) {
    const auto word = LoadAt<std::uint32_t>(code, at);
    const std::uint64_t length = LengthOf(word);
    if (length == 0 || at + length > code.size()) return false;
    at += length;
    ++total;
    if (const char* matrix = MatrixName(arch, word); matrix != nullptr) {
      ++counted.matrix[matrix];
    } else if (const std::string name = ClassOf(word); !name.empty()) {
      ++counted.instructions[name];
    }
  }
  counted.instructions["instructions"] = total;
  facts.instructions = std::move(counted.instructions);
  facts.matrix = std::move(counted.matrix);
  return true;
}

}  // namespace fettle
