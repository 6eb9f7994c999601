// SPDX-License-Identifier: Apache-2.0
#include "core/digest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <openssl/sha.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

void AppendString(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20) {
          out += "\\u00";
          out += kHex[byte >> 4];
          out += kHex[byte & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

// ECMAScript's Number::toString, as RFC 8785 asks: the shortest digits that round-trip, laid out
// plainly for exponents in [-7, 21) and in exponent form elsewhere.
void AppendNumber(double value, std::string& out) {
  FETTLE_CHECK(std::isfinite(value));
  if (value == 0) {
    out += '0';
    return;
  }
  if (value < 0) out += '-';
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(value),
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  const int point = std::atoi(text.data() + e + 1) + 1;  // Digits before the decimal point.
  const int count = static_cast<int>(digits.size());
  if (count <= point && point <= 21) {
    out += digits;
    out.append(static_cast<std::size_t>(point - count), '0');
  } else if (0 < point && point <= 21) {
    out += digits.substr(0, static_cast<std::size_t>(point));
    out += '.';
    out += digits.substr(static_cast<std::size_t>(point));
  } else if (-6 < point && point <= 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-point), '0');
    out += digits;
  } else {
    out += digits[0];
    if (count > 1) {
      out += '.';
      out += digits.substr(1);
    }
    out += 'e';
    out += point - 1 < 0 ? '-' : '+';
    out += std::to_string(std::abs(point - 1));
  }
}

// Decodes one code point of UTF-8 starting at `i`; malformed bytes stand for themselves.
std::uint32_t NextCodePoint(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t k) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[k]));
  };
  const std::uint32_t lead = byte(i);
  const std::size_t extra = lead >= 0xf0 ? 3u : lead >= 0xe0 ? 2u : lead >= 0xc0 ? 1u : 0u;
  if (extra == 0 || i + extra >= text.size()) {
    ++i;
    return lead;
  }
  std::uint32_t point = lead & (0x3fu >> extra);
  for (std::size_t k = 1; k <= extra; ++k) point = (point << 6) | (byte(i + k) & 0x3fu);
  i += extra + 1;
  return point;
}

// RFC 8785 orders keys by their UTF-16 code units.
std::u16string Utf16(std::string_view text) {
  std::u16string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t point = NextCodePoint(text, i);
    if (point < 0x10000) {
      out += static_cast<char16_t>(point);
    } else {
      out += static_cast<char16_t>(0xd800 + ((point - 0x10000) >> 10));
      out += static_cast<char16_t>(0xdc00 + ((point - 0x10000) & 0x3ff));
    }
  }
  return out;
}

void Append(const nlohmann::json& json, std::string& out) {
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      out += "null";
      return;
    case nlohmann::json::value_t::boolean:
      out += json.get<bool>() ? "true" : "false";
      return;
    case nlohmann::json::value_t::number_integer:
      // Integers beyond 2^53 keep their digits: rounding them would merge different inputs.
      out += std::to_string(json.get<std::int64_t>());
      return;
    case nlohmann::json::value_t::number_unsigned:
      out += std::to_string(json.get<std::uint64_t>());
      return;
    case nlohmann::json::value_t::number_float:
      AppendNumber(json.get<double>(), out);
      return;
    case nlohmann::json::value_t::string:
      AppendString(json.get_ref<const std::string&>(), out);
      return;
    case nlohmann::json::value_t::array: {
      out += '[';
      bool first = true;
      for (const auto& entry : json) {
        if (!first) out += ',';
        first = false;
        Append(entry, out);
      }
      out += ']';
      return;
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<std::u16string, nlohmann::json::const_iterator>> entries;
      for (auto it = json.begin(); it != json.end(); ++it) {
        entries.emplace_back(Utf16(it.key()), it);
      }
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      out += '{';
      bool first = true;
      for (const auto& [key, it] : entries) {
        if (!first) out += ',';
        first = false;
        AppendString(it.key(), out);
        out += ':';
        Append(it.value(), out);
      }
      out += '}';
      return;
    }
    default:
      FETTLE_CHECK(false && "no JSON form");
  }
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string CanonicalJson(const nlohmann::json& json) {
  std::string out;
  Append(json, out);
  return out;
}

}  // namespace fettle
