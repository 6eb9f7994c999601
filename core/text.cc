// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <cstdint>

namespace fettle {

std::size_t Utf8SequenceLength(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(s[i]); };
  const auto continues = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xBF) {
    return i < s.size() && at(i) >= low && at(i) <= high;
  };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const std::uint8_t low = first == 0xE0 ? 0xA0 : 0x80;
    const std::uint8_t high = first == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const std::uint8_t low = first == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = first == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::size_t ValidUtf8Prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = Utf8SequenceLength(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string ValidUtf8(std::string_view text, std::string_view replacement) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t good = ValidUtf8Prefix(text);
    valid += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    valid += replacement;
    text.remove_prefix(1);
  }
  return valid;
}

std::string CutText(std::string_view text, std::size_t most) {
  if (text.size() > most) {
    std::string_view cut = text.substr(0, most);
    // A character that was cut in two goes; invalid bytes further in stay to be replaced.
    for (std::size_t drop = 0; drop < 4 && drop < cut.size(); ++drop) {
      const std::string_view end = cut.substr(cut.size() - 1 - drop);
      const auto first = static_cast<unsigned char>(end.front());
      if ((first & 0xC0) == 0x80) continue;
      if (first >= 0xC2 && first < 0xF5 && !IsUtf8(end)) cut.remove_suffix(end.size());
      break;
    }
    text = cut;
  }
  return ValidUtf8(text);
}

}  // namespace fettle
