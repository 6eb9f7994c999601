// SPDX-License-Identifier: Apache-2.0
#include "verifier/npy.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

absl::Status Bad(const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("read .npy: {}", why));
}

// The text after `'key':` in the header dictionary, blanks skipped.
std::string_view After(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  const std::size_t start = rest.find_first_not_of(" :");
  return start == std::string_view::npos ? std::string_view() : rest.substr(start);
}

absl::Status ParseShape(std::string_view text, std::vector<std::int64_t>* shape) {
  if (text.empty() || text.front() != '(') return Bad("no shape in the header");
  const std::size_t end = text.find(')');
  if (end == std::string_view::npos) return Bad("the shape in the header does not end");
  text = text.substr(1, end - 1);
  std::int64_t total = 1;
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(" ,");
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0) return Bad("a dimension is not a number");
    if (__builtin_mul_overflow(total, value, &total)) return Bad("the shape is too large");
    shape->push_back(value);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  }
  return absl::OkStatus();
}

template <typename T>
T Load(std::string_view data, std::int64_t index) {
  T value;
  std::memcpy(&value, data.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// Whether items of this kind and size are the dtype's own representation.
bool SameRepresentation(const NpyArray& array, DType dtype) {
  if (array.item_bytes != SizeOf(dtype)) return false;
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
      return array.kind == 'f';
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
      return array.kind == 'i';
    case DType::kU8:
      return array.kind == 'u';
    case DType::kBool:
      return array.kind == 'b';
    default:
      return array.kind == 'u' || array.kind == 'V';  // Raw bits.
  }
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t total = 1;
  for (const std::int64_t extent : shape) total *= extent;
  return total;
}

double NpyArray::AsDouble(std::int64_t index) const {
  if (kind != 'f') return static_cast<double>(AsInteger(index));
  if (item_bytes == 8) return Load<double>(data, index);
  if (item_bytes == 4) return static_cast<double>(Load<float>(data, index));
  return DecodeFloat(DType::kF16, reinterpret_cast<const std::uint8_t*>(data.data()), index);
}

std::int64_t NpyArray::AsInteger(std::int64_t index) const {
  const bool is_signed = kind == 'i';
  switch (item_bytes) {
    case 1:
      return is_signed ? Load<std::int8_t>(data, index) : Load<std::uint8_t>(data, index);
    case 2:
      return is_signed ? Load<std::int16_t>(data, index) : Load<std::uint16_t>(data, index);
    case 4:
      return is_signed ? Load<std::int32_t>(data, index)
                       : static_cast<std::int64_t>(Load<std::uint32_t>(data, index));
    default:
      return Load<std::int64_t>(data, index);
  }
}

absl::StatusOr<NpyArray> ParseNpy(std::string_view text) {
  if (text.size() < 10 || text.substr(0, 6) != "\x93NUMPY") return Bad("not an .npy file");
  const int version = text[6];
  std::size_t header_at = 10, header_size = Load<std::uint16_t>(text.substr(8), 0);
  if (version >= 2) {
    if (text.size() < 12) return Bad("the header is cut short");
    header_at = 12;
    header_size = Load<std::uint32_t>(text.substr(8), 0);
  }
  if (header_at + header_size > text.size()) return Bad("the header is cut short");
  const std::string_view header = text.substr(header_at, header_size);
  NpyArray array;
  array.data = text.substr(header_at + header_size);

  std::string_view descr = After(header, "'descr'");
  if (descr.size() < 4 || descr.front() != '\'') return Bad("structured dtypes are not supported");
  const char order = descr[1];
  array.kind = descr[2];
  const auto [rest, error] =
      std::from_chars(descr.data() + 3, descr.data() + descr.size(), array.item_bytes);
  if (error != std::errc() || *rest != '\'')
    return Bad("the dtype in the header is not understood");
  if (order == '>') return Bad("big-endian data; write it with dtype '<...'");
  const bool size_ok = array.kind == 'f'
                           ? array.item_bytes == 2 || array.item_bytes == 4 || array.item_bytes == 8
                       : array.kind == 'b' ? array.item_bytes == 1
                                           : array.item_bytes == 1 || array.item_bytes == 2 ||
                                                 array.item_bytes == 4 || array.item_bytes == 8;
  if (std::string_view("fiubV").find(array.kind) == std::string_view::npos || !size_ok) {
    return Bad(fmt::format("dtype {}{} is not supported", array.kind, array.item_bytes));
  }
  if (After(header, "'fortran_order'").substr(0, 4) == "True") {
    return Bad("Fortran order; write it with numpy.ascontiguousarray");
  }
  FETTLE_RETURN_IF_ERROR(ParseShape(After(header, "'shape'"), &array.shape));
  std::int64_t need = 0;
  if (__builtin_mul_overflow(array.elements(), std::int64_t{array.item_bytes}, &need) ||
      need > static_cast<std::int64_t>(array.data.size()))
    return Bad("the data are shorter than the shape says");
  array.data = array.data.substr(0, static_cast<std::size_t>(need));
  return array;
}

absl::StatusOr<std::vector<std::uint8_t>> NpyToDType(const NpyArray& array, DType dtype) {
  if (SameRepresentation(array, dtype)) {
    return std::vector<std::uint8_t>(array.data.begin(), array.data.end());
  }
  const bool raw = array.kind == 'V';
  if (raw || (IsInteger(dtype) && array.kind == 'f')) {
    return Bad(fmt::format("items of kind {}{} do not fit dtype {}", array.kind, array.item_bytes,
                           std::string(DTypeName(dtype))));
  }
  const std::int64_t count = array.elements();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(StorageBytes(dtype, count)));
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsInteger(dtype)) {
      EncodeInteger(dtype, array.AsInteger(i), bytes.data(), i);
    } else {
      EncodeFloat(dtype, array.AsDouble(i), bytes.data(), i);
    }
  }
  return bytes;
}

}  // namespace fettle
