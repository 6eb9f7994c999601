// SPDX-License-Identifier: Apache-2.0
#include "core/code_object/msgpack.h"

#include <elf.h>
#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr int kMaxDepth = 16;
// Far more than any code object describes; each takes a hundred times the memory of its one byte.
constexpr int kMaxValues = 1 << 20;
constexpr std::uint32_t kAmdgpuMetadataNote = 32;

// Keeps the first error; every read after it gives zero and no bytes, so that loops end.
class Parser {
 public:
  explicit Parser(ByteSpan in) : in_(in) {}

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

  MsgpackValue Value(int depth) {
    if (depth > kMaxDepth) return Fail("nested too deeply");
    if (++values_ > kMaxValues) return Fail("more than a million values");
    const auto tag = static_cast<std::uint8_t>(Number(1));
    if (failed()) return {};
    if (tag < 0x80) return Integer(tag);
    if (tag < 0x90) return Map(tag & 15, depth);
    if (tag < 0xa0) return Array(tag & 15, depth);
    if (tag < 0xc0) return Text(tag & 31);
    if (tag >= 0xe0) return Integer(static_cast<std::int8_t>(tag));
    return Tagged(tag, depth);
  }

 private:
  MsgpackValue Tagged(std::uint8_t tag, int depth) {
    switch (tag) {
      case 0xc0:  // nil
      case 0xc2:  // false
        return {};
      case 0xc3:  // true
        return Integer(1);
      case 0xca:  // float32 and float64: not used by the metadata, skipped.
        Number(4);
        return {};
      case 0xcb:
        Number(8);
        return {};
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return Integer(static_cast<std::int64_t>(Number(std::size_t{1} << (tag - 0xcc))));
      case 0xd0:
        return Integer(static_cast<std::int8_t>(Number(1)));
      case 0xd1:
        return Integer(static_cast<std::int16_t>(Number(2)));
      case 0xd2:
        return Integer(static_cast<std::int32_t>(Number(4)));
      case 0xd3:
        return Integer(static_cast<std::int64_t>(Number(8)));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return Text(Number(std::size_t{1} << (tag - 0xd9)));
      case 0xdc:
      case 0xdd:
        return Array(Number(std::size_t{2} << (tag - 0xdc)), depth);
      case 0xde:
      case 0xdf:
        return Map(Number(std::size_t{2} << (tag - 0xde)), depth);
      default:
        return Fail(fmt::format("unknown tag 0x{:02x}", tag));
    }
  }
  MsgpackValue Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    in_ = {};
    return {};
  }
  static MsgpackValue Integer(std::int64_t number) {
    MsgpackValue value;
    value.number = number;
    return value;
  }
  ByteSpan Take(std::uint64_t size) {
    if (size > in_.size()) {
      Fail("cut off");
      return {};
    }
    const ByteSpan taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  std::uint64_t Number(std::size_t size) {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : Take(size)) value = value << 8 | byte;
    return value;
  }
  MsgpackValue Text(std::uint64_t size) {
    const ByteSpan taken = Take(size);
    MsgpackValue value;
    value.text.assign(taken.begin(), taken.end());
    return value;
  }
  MsgpackValue Array(std::uint64_t count, int depth) {
    MsgpackValue value;
    while (count-- > 0 && !failed()) value.items.push_back(Value(depth + 1));
    return value;
  }
  MsgpackValue Map(std::uint64_t count, int depth) {
    MsgpackValue value;
    while (count-- > 0 && !failed()) {
      std::string key = Value(depth + 1).text;
      value.fields.emplace_back(std::move(key), Value(depth + 1));
    }
    return value;
  }

  ByteSpan in_;
  std::string error_;
  int values_ = 0;
};

}  // namespace

const MsgpackValue* MsgpackValue::Find(std::string_view key) const {
  for (const auto& [name, value] : fields) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::int64_t MsgpackValue::Number(std::string_view key, std::int64_t absent) const {
  const MsgpackValue* value = Find(key);
  return value == nullptr ? absent : value->number;
}

std::string MsgpackValue::Text(std::string_view key) const {
  const MsgpackValue* value = Find(key);
  return value == nullptr ? std::string() : value->text;
}

absl::StatusOr<MsgpackValue> ParseMsgpack(ByteSpan bytes) {
  Parser parser(bytes);
  MsgpackValue value = parser.Value(0);
  if (!parser.failed()) return value;
  return absl::InvalidArgumentError(
      fmt::format("read metadata note: {}; the code object is damaged", parser.error()));
}

absl::StatusOr<MsgpackValue> ReadAmdMetadata(const ElfFile& elf) {
  for (const ElfSection& section : elf.sections) {
    if (section.type != SHT_NOTE) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= section.bytes.size();) {
      const auto note = LoadAt<Elf64_Nhdr>(section.bytes, at);
      const std::uint64_t body = at + sizeof note + ((note.n_namesz + 3ULL) & ~3ULL);
      if (note.n_type == kAmdgpuMetadataNote) {
        return ParseMsgpack(SliceOf(section.bytes, body, note.n_descsz));
      }
      at = body + ((note.n_descsz + 3ULL) & ~3ULL);
    }
  }
  return absl::InvalidArgumentError(
      "read code object: no AMD metadata note; compile it for a gfx target without bundling");
}

}  // namespace fettle
