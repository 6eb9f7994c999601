// SPDX-License-Identifier: Apache-2.0
#include "core/code_object/elf.h"

#include <algorithm>

#include <elf.h>
#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

// More than any code object has; bounds the work that a damaged header can ask for.
constexpr std::uint64_t kMaxSections = 1 << 16;
constexpr std::uint64_t kMaxSymbols = 1 << 20;

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("read code object: {}; the file is damaged or not an ELF code object", what));
}

std::string TextAt(ByteSpan strings, std::uint64_t at) {
  if (at >= strings.size()) return {};
  const ByteSpan tail = strings.subspan(at);
  return {tail.begin(), std::find(tail.begin(), tail.end(), std::uint8_t{0})};
}

void ReadSymbols(const ElfSection& table, ByteSpan strings, ElfFile& elf) {
  const std::uint64_t count = table.bytes.size() / sizeof(Elf64_Sym);
  for (std::uint64_t i = 0; i < count && elf.symbols.size() < kMaxSymbols; ++i) {
    const auto raw = LoadAt<Elf64_Sym>(table.bytes, i * sizeof(Elf64_Sym));
    elf.symbols.push_back({.name = TextAt(strings, raw.st_name),
                           .type = static_cast<std::uint8_t>(ELF64_ST_TYPE(raw.st_info)),
                           .section = raw.st_shndx,
                           .value = raw.st_value,
                           .size = raw.st_size});
  }
}

}  // namespace

ByteSpan SliceOf(ByteSpan data, std::uint64_t at, std::uint64_t size) {
  if (at > data.size() || size > data.size() - at) return {};
  return data.subspan(at, size);
}

const ElfSection* ElfFile::Find(std::string_view name) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

ByteSpan ElfFile::AtAddress(std::uint64_t address, std::uint64_t size) const {
  for (const ElfSection& section : sections) {
    if (section.address == 0 || section.bytes.empty() || address < section.address) continue;
    const std::uint64_t offset = address - section.address;
    if (offset < section.bytes.size()) return SliceOf(section.bytes, offset, size);
  }
  return {};
}

absl::StatusOr<ElfFile> ReadElf(ByteSpan file) {
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
    return Damaged("no ELF header");
  }
  const auto header = LoadAt<Elf64_Ehdr>(file, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return Damaged("not a 64-bit little-endian ELF file");
  }
  ElfFile elf{.machine = header.e_machine,
              .abi_version = header.e_ident[EI_ABIVERSION],
              .flags = header.e_flags,
              .sections = {},
              .symbols = {}};
  const std::uint64_t count = std::min<std::uint64_t>(header.e_shnum, kMaxSections);
  std::vector<std::uint32_t> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    const ByteSpan raw = SliceOf(file, header.e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
    if (raw.empty()) return Damaged(fmt::format("section header {} is cut off", i));
    const auto section = LoadAt<Elf64_Shdr>(raw, 0);
    ByteSpan bytes;
    if (section.sh_type != SHT_NOBITS && section.sh_size > 0) {
      bytes = SliceOf(file, section.sh_offset, section.sh_size);
      if (bytes.empty()) return Damaged(fmt::format("section {} is cut off", i));
    }
    elf.sections.push_back({.name = {},
                            .type = section.sh_type,
                            .flags = section.sh_flags,
                            .address = section.sh_addr,
                            .size = section.sh_size,
                            .link = section.sh_link,
                            .bytes = bytes});
    names.push_back(section.sh_name);
  }
  if (header.e_shstrndx < elf.sections.size()) {
    const ByteSpan strings = elf.sections[header.e_shstrndx].bytes;
    for (std::size_t i = 0; i < names.size(); ++i) elf.sections[i].name = TextAt(strings, names[i]);
  }
  for (const std::uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (wanted == SHT_DYNSYM) elf.dynsym_first = elf.symbols.size();
    for (const ElfSection& section : elf.sections) {
      if (section.type != wanted || section.link >= elf.sections.size()) continue;
      ReadSymbols(section, elf.sections[section.link].bytes, elf);
    }
  }
  return elf;
}

std::vector<std::string> WritableGlobalsOf(ByteSpan code_object) {
  std::vector<std::string> globals;
  const auto elf = ReadElf(code_object);
  if (!elf.ok()) return globals;
  for (const ElfSymbol& symbol : elf->symbols) {
    if (symbol.type != STT_OBJECT || symbol.section >= elf->sections.size()) continue;
    const ElfSection& section = elf->sections[symbol.section];
    if ((section.flags & SHF_WRITE) == 0 || symbol.name.empty()) continue;
    // A cubin's shared memory and constant banks carry the flag too; kernels cannot keep state
    // there.
    if (section.name.starts_with(".nv.shared") || section.name.starts_with(".nv.constant"))
      continue;
    // What compilers add of their own: constants with relocations, identities, entry names.
    if (section.name == ".data.rel.ro" || symbol.name.starts_with("__hip_cuid_") ||
        symbol.name.find("__amdgcn_name_expr_") != std::string::npos) {
      continue;
    }
    globals.push_back(symbol.name);
  }
  std::sort(globals.begin(), globals.end());
  globals.erase(std::unique(globals.begin(), globals.end()), globals.end());
  return globals;
}

}  // namespace fettle
