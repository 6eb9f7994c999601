// SPDX-License-Identifier: Apache-2.0
#include "core/base64.h"

#include <array>
#include <cstdint>

#include <fmt/format.h>

namespace fettle {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> MakeInverse() {
  std::array<std::int8_t, 256> inverse{};
  for (auto& entry : inverse) entry = -1;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    inverse[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return inverse;
}
constexpr std::array<std::int8_t, 256> kInverse = MakeInverse();

}  // namespace

std::string Base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const auto byte = [&](std::size_t k) {
      return k < left ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + k])) : 0u;
    };
    const std::uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kAlphabet[group >> 18];
    out += kAlphabet[(group >> 12) & 63];
    out += left > 1 ? kAlphabet[(group >> 6) & 63] : '=';
    out += left > 2 ? kAlphabet[group & 63] : '=';
  }
  return out;
}

absl::StatusOr<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("decode base64: length {} is not a multiple of 4", text.size()));
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t padding = 0;
    if (i + 4 == text.size()) padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int8_t value =
          k >= 4 - padding ? std::int8_t{0} : kInverse[static_cast<unsigned char>(text[i + k])];
      if (value < 0) {
        return absl::InvalidArgumentError(
            fmt::format("decode base64: unexpected character at {}", i + k));
      }
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      out += static_cast<char>(group >> (16 - 8 * k) & 255);
    }
  }
  return out;
}

}  // namespace fettle
