// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/code_object/elf.h"

namespace fettle {

// A value of the msgpack subset that AMD's metadata note uses.
struct MsgpackValue {
  std::int64_t number = 0;  // Integers and booleans.
  std::string text;
  std::vector<MsgpackValue> items;
  std::vector<std::pair<std::string, MsgpackValue>> fields;

  const MsgpackValue* Find(std::string_view key) const;
  std::int64_t Number(std::string_view key, std::int64_t absent) const;
  std::string Text(std::string_view key) const;
};

// Parses one value. kInvalidArgument when the bytes are cut off, too deep or of an unknown kind.
absl::StatusOr<MsgpackValue> ParseMsgpack(ByteSpan bytes);

// The metadata note of an AMD code object ("amdhsa.kernels", "amdhsa.target"). kInvalidArgument:
// there is none.
absl::StatusOr<MsgpackValue> ReadAmdMetadata(const ElfFile& elf);

}  // namespace fettle
