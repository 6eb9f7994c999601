// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <algorithm>

namespace fettle {
namespace {

// Length of the UTF-8 sequence at the start of `text`, which is not empty; 0 when it is not valid.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond the last code point.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

}  // namespace

std::size_t ValidUtf8Prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = SequenceLength(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t good = ValidUtf8Prefix(text);
    valid += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    valid += '?';
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
