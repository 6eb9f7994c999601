// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/sse_parser.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

constexpr std::string_view kStream =
    ": comment\r\nevent: a\r\ndata: one\r\ndata:two\r\n\r\nid: 7\n\ndata: three\n\rdata\r\r"
    "data: unfinished";

TEST(SseParser, SplitsEventsWhereverTheBytesAreCut) {
  for (std::size_t cut = 0; cut <= kStream.size(); ++cut) {
    SseParser parser;
    std::vector<SseEvent> events = parser.Feed(kStream.substr(0, cut));
    for (SseEvent& event : parser.Feed(kStream.substr(cut))) events.push_back(std::move(event));
    ASSERT_EQ(events.size(), 3u) << cut;
    EXPECT_EQ(events[0].event, "a");
    EXPECT_EQ(events[0].data, "one\ntwo");
    EXPECT_EQ(events[1].data, "three");
    EXPECT_EQ(events[2].data, "");
  }
}

TEST(RepairUtf8, KeepsValidTextAndReplacesTheRest) {
  EXPECT_EQ(RepairUtf8("größe 温度 \xF0\x9F\x98\x80"), "größe 温度 \xF0\x9F\x98\x80");
  EXPECT_EQ(RepairUtf8("a\xC3"), "a\xEF\xBF\xBD");                // Cut in the middle.
  EXPECT_EQ(RepairUtf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // Overlong.
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80").size(), 9u);               // A surrogate.
  EXPECT_EQ(RepairUtf8("\xF4\x90\x80\x80").size(), 12u);          // Beyond U+10FFFF.
}

}  // namespace
}  // namespace fettle
