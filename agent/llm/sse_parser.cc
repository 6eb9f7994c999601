// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/sse_parser.h"

#include <cstdint>
#include <utility>

namespace fettle {

std::vector<SseEvent> SseParser::Feed(std::string_view bytes) {
  std::vector<SseEvent> events;
  for (const char c : bytes) {
    if (c == '\n' && after_cr_) {
      after_cr_ = false;
      continue;
    }
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      EndLine(events);
    } else {
      line_.push_back(c);
    }
  }
  return events;
}

void SseParser::EndLine(std::vector<SseEvent>& events) {
  std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (has_data_) events.push_back(std::move(current_));
    current_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) return;  // A comment.
  const std::string field = line.substr(0, colon);
  std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.erase(0, 1);
  if (field == "data") {
    if (has_data_) current_.data.push_back('\n');
    current_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    current_.event = std::move(value);
  }
}

namespace {

// Length of the valid UTF-8 sequence at the start of `s`, or 0 (RFC 3629 table 3-7).
std::size_t SequenceLength(std::string_view s) {
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

}  // namespace

std::string RepairUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = SequenceLength(bytes);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
    } else {
      out += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace fettle
