// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(Text, KnowsUtf8) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("plain, é, 日本, \xF0\x9F\x99\x82"));
  for (const char* bad : {"\xE9", "a\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(bad));
    EXPECT_TRUE(IsUtf8(ValidUtf8(bad)));
  }
  EXPECT_EQ(ValidUtf8Prefix("ab\xE9z"), 2u);
  EXPECT_EQ(ValidUtf8("Caf\xE9 \xC3\xA9"), "Caf? \xC3\xA9");
}

TEST(Text, CutsBetweenCharacters) {
  const std::string text = "ab\xC3\xA9\xE6\x97\xA5";  // 2 + 2 + 3 bytes.
  EXPECT_EQ(CutText(text, 100), text);
  EXPECT_EQ(CutText(text, 7), text);
  EXPECT_EQ(CutText(text, 6), "ab\xC3\xA9");
  EXPECT_EQ(CutText(text, 5), "ab\xC3\xA9");
  EXPECT_EQ(CutText(text, 4), "ab\xC3\xA9");
  EXPECT_EQ(CutText(text, 3), "ab");
  EXPECT_EQ(CutText(text, 0), "");
  EXPECT_EQ(CutText("\xFF\xFF\xFF", 2), "??");
}

TEST(Text, InvalidJsonTextIsReplacedAndNotThrown) {
  const nlohmann::json json = {{"log", "caf\xE9"}};
  const std::string text = json.dump(-1, ' ', false, kReplaceInvalid);
  EXPECT_TRUE(IsUtf8(text));
  EXPECT_TRUE(nlohmann::json::accept(text));
}

}  // namespace
}  // namespace fettle
