// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/code_object/elf.h"
#include "core/digest.h"

namespace fettle {
namespace {

constexpr std::size_t kDigits = 16;

std::string BuildIdIn(ByteSpan file) {
  const auto elf = ReadElf(file);
  const ElfSection* section = elf.ok() ? elf->Find(".note.gnu.build-id") : nullptr;
  if (section != nullptr) {
    const auto note = LoadAt<Elf64_Nhdr>(section->bytes, 0);
    std::string digits;
    for (const std::uint8_t byte :
         SliceOf(section->bytes, sizeof note + ((note.n_namesz + 3ULL) & ~3ULL), note.n_descsz)) {
      digits += fmt::format("{:02x}", byte);
    }
    if (digits.size() >= kDigits) return digits.substr(0, kDigits);
  }
  return Sha256Hex({reinterpret_cast<const char*>(file.data()), file.size()}).substr(0, kDigits);
}

}  // namespace

std::string BuildIdOf(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "unknown";
  struct stat info = {};
  std::string id = "unknown";
  if (fstat(fd, &info) == 0 && info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map != MAP_FAILED) {
      id = BuildIdIn({static_cast<const std::uint8_t*>(map), size});
      munmap(map, size);
    }
  }
  close(fd);
  return id;
}

}  // namespace fettle
