// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the 64-bit little-endian ELF files that GPU compilers write. The bytes may be damaged or
// hostile: every access is checked, and what is wrong comes back as kInvalidArgument.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

using ByteSpan = std::span<const std::uint8_t>;

inline ByteSpan AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// `size` bytes from `at`; an empty span when they are not all there.
ByteSpan SliceOf(ByteSpan data, std::uint64_t at, std::uint64_t size);

// A value from `at`, zero when it is not all there.
template <typename T>
T LoadAt(ByteSpan data, std::uint64_t at) {
  T value{};
  const ByteSpan bytes = SliceOf(data, at, sizeof value);
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

struct ElfSection {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // Also of sections without bytes (SHT_NOBITS).
  std::uint32_t link = 0;
  ByteSpan bytes;  // Points into the file.
};

struct ElfSymbol {
  std::string name;
  std::uint8_t type = 0;  // STT_OBJECT, STT_FUNC, ...
  std::uint16_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

inline constexpr std::uint16_t kElfMachineCuda = 190;
inline constexpr std::uint16_t kElfMachineAmdgpu = 224;

struct ElfFile {
  std::uint16_t machine = 0;
  std::uint8_t abi_version = 0;
  std::uint32_t flags = 0;
  std::vector<ElfSection> sections;
  // Those of .symtab, then those of .dynsym from `dynsym_first` on, in their tables' order.
  std::vector<ElfSymbol> symbols;
  std::size_t dynsym_first = 0;

  const ElfSection* Find(std::string_view name) const;
  // The bytes at a virtual address; empty when they are not in the file.
  ByteSpan AtAddress(std::uint64_t address, std::uint64_t size) const;
};

// Spans point into `file`, which must outlive the result.
absl::StatusOr<ElfFile> ReadElf(ByteSpan file);

// Module-level variables that a kernel can write (in .data, .bss, .nv.global and the like), from
// the symbols of a code object. Empty for anything that is not one.
std::vector<std::string> WritableGlobalsOf(ByteSpan code_object);

}  // namespace fettle
