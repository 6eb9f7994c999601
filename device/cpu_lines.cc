// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_lines.h"

#include <algorithm>
#include <cstring>

namespace fettle {
namespace {

// Reads little-endian values; past the end it yields zeros and stays there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool AtEnd() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void Skip(std::uint64_t count) { at_ += std::min<std::uint64_t>(count, bytes_.size() - at_); }
  void SeekTo(std::size_t at) { at_ = std::min(at, bytes_.size()); }

  template <class T>
  T Take() {
    T value{};
    if (bytes_.size() - at_ < sizeof(T)) {
      at_ = bytes_.size();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t Uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !AtEnd(); shift += 7) {
      const auto byte = Take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
  std::int64_t Sleb() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    do {
      byte = Take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0 && !AtEnd());
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  std::string Text() {
    const std::string_view rest = bytes_.substr(at_);
    const std::string_view text = rest.substr(0, rest.find('\0'));
    Skip(text.size() + 1);
    return std::string(text);
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace

LineTable::LineTable(std::string_view debug_line) {
  while (debug_line.size() > 4) {
    std::uint32_t length;
    std::memcpy(&length, debug_line.data(), 4);
    if (length >= 0xfffffff0u || length > debug_line.size() - 4) break;
    ReadUnit(debug_line.substr(4, length));
    debug_line.remove_prefix(4 + length);
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return a.address < b.address; });
}

void LineTable::ReadUnit(std::string_view unit) {
  Reader in(unit);
  const auto version = in.Take<std::uint16_t>();
  if (version < 2 || version > 4) return;
  const auto header_length = in.Take<std::uint32_t>();
  const std::size_t program = in.at() + header_length;
  const auto step = in.Take<std::uint8_t>();  // Minimum instruction length.
  if (version >= 4) in.Take<std::uint8_t>();
  in.Take<std::uint8_t>();  // is_stmt by default.
  const auto line_base = in.Take<std::int8_t>();
  const auto line_range = in.Take<std::uint8_t>();
  const auto opcode_base = in.Take<std::uint8_t>();
  std::vector<std::uint8_t> operands(1, 0);
  for (int i = 1; i < opcode_base; ++i) operands.push_back(in.Take<std::uint8_t>());
  if (line_range == 0) return;
  while (!in.AtEnd() && !in.Text().empty()) {
  }
  const std::size_t first_file = files_.size();
  for (std::string name = in.Text(); !name.empty(); name = in.Text()) {
    files_.push_back(std::move(name));
    for (int i = 0; i < 3; ++i) in.Uleb();  // Folder, time, size.
  }
  in.SeekTo(program);

  std::uint64_t address = 0, file = 1;
  std::int64_t line = 1;
  const auto emit = [&](bool end) {
    const std::uint64_t index = first_file + file - 1;
    if (file >= 1 && index < files_.size() && line >= 0 && line < (std::int64_t{1} << 30)) {
      rows_.push_back({address, static_cast<std::uint32_t>(index), static_cast<int>(line), end});
    }
  };
  while (!in.AtEnd()) {
    const auto opcode = in.Take<std::uint8_t>();
    if (opcode >= opcode_base) {
      const int adjusted = opcode - opcode_base;
      address += static_cast<std::uint64_t>(adjusted / line_range) * step;
      line += line_base + adjusted % line_range;
      emit(false);
    } else if (opcode == 0) {
      const std::uint64_t length = in.Uleb();
      const std::size_t next = in.at() + static_cast<std::size_t>(length);
      const auto extended = in.Take<std::uint8_t>();
      if (extended == 1) {  // End of sequence.
        emit(true);
        address = 0;
        file = 1;
        line = 1;
      } else if (extended == 2) {
        address = in.Take<std::uint64_t>();
      }
      in.SeekTo(next);
    } else if (opcode == 1) {
      emit(false);
    } else if (opcode == 2) {
      address += in.Uleb() * step;
    } else if (opcode == 3) {
      line += in.Sleb();
    } else if (opcode == 4) {
      file = in.Uleb();
    } else if (opcode == 8) {
      address += static_cast<std::uint64_t>((255 - opcode_base) / line_range) * step;
    } else if (opcode == 9) {
      address += in.Take<std::uint16_t>();
    } else {
      for (int i = 0; i < operands[opcode]; ++i) in.Uleb();
    }
  }
}

SourcePlace LineTable::Find(std::uint64_t address) const {
  auto after =
      std::upper_bound(rows_.begin(), rows_.end(), address,
                       [](std::uint64_t wanted, const Row& row) { return wanted < row.address; });
  // Several rows may share an address, the last one holds.
  while (after != rows_.begin()) {
    --after;
    if (after->end) return {};
    if (after->line > 0) return {files_[after->file], after->line};
  }
  return {};
}

}  // namespace fettle
