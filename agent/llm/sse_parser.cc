// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/sse_parser.h"

#include <cstdint>
#include <utility>

#include "core/text.h"

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

std::string RepairUtf8(std::string_view bytes) { return ValidUtf8(bytes, "\xEF\xBF\xBD"); }

}  // namespace fettle
