// SPDX-License-Identifier: Apache-2.0
#include "core/npy_list.h"

#include <cstring>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace fettle {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

// The header's value after `key`, up to the next comma or brace ("'descr': '<i8', ...").
std::string_view ValueOf(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  const std::size_t start = rest.find_first_not_of("': ");
  return start == std::string_view::npos ? std::string_view() : rest.substr(start);
}

std::optional<DType> DTypeOf(std::string_view header) {
  const std::string_view descr = ValueOf(header, "'descr'").substr(0, 3);
  if (descr == "<i8") return DType::kI64;
  if (descr == "<i4") return DType::kI32;
  if (descr == "<i2") return DType::kI16;
  if (descr == "|i1") return DType::kI8;
  if (descr == "|u1") return DType::kU8;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> ReadNpyList(std::string_view bytes) {
  const auto refuse = [](const char* why) {
    return absl::InvalidArgumentError(std::string("read .npy list: ") + why);
  };
  if (bytes.size() < 10 || bytes.substr(0, 6) != kMagic) return refuse("no .npy header");
  const bool long_header = bytes[6] > 1;
  if (long_header && bytes.size() < 12) return refuse("no .npy header");
  std::size_t length = 0;
  for (std::size_t i = long_header ? 12 : 10; i-- > 8;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  const std::size_t start = long_header ? 12 : 10;
  if (length > bytes.size() - start) return refuse("the header is cut off");
  const std::string_view header = bytes.substr(start, length);
  const std::optional<DType> dtype = DTypeOf(header);
  if (!dtype) return refuse("the dtype must be a little-endian integer");
  const std::string_view shape = ValueOf(header, "'shape'");
  const std::size_t comma = shape.find(',');
  if (shape.empty() || shape[0] != '(' || comma == std::string_view::npos ||
      shape.substr(comma + 1, 1) != ")") {
    return refuse("the array must have one dimension");
  }
  const std::string_view data = bytes.substr(start + length);
  const auto size = static_cast<std::size_t>(SizeOf(*dtype));
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < data.size() / size; ++i) {
    out.push_back(DecodeInteger(*dtype, reinterpret_cast<const std::uint8_t*>(data.data()),
                                static_cast<std::int64_t>(i)));
  }
  if (std::to_string(out.size()) != shape.substr(1, comma - 1)) {
    return refuse("the data are cut off");
  }
  return out;
}

}  // namespace fettle
