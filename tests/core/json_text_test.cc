// SPDX-License-Identifier: Apache-2.0
#include "core/json_text.h"

#include <string>

#include <gtest/gtest.h>

#include "core/work_unit.h"

namespace fettle {
namespace {

std::string Nested(int deep) { return std::string(deep, '[') + std::string(deep, ']'); }

TEST(JsonText, CountsOpenBracketsOutsideTexts) {
  EXPECT_EQ(JsonNesting(""), 0);
  EXPECT_EQ(JsonNesting("7"), 0);
  EXPECT_EQ(JsonNesting(R"({"a": [1, {"b": []}], "c": {}})"), 4);
  EXPECT_EQ(JsonNesting(R"(["[[[[", "\"[[", "\\", []])"), 2);
  EXPECT_EQ(JsonNesting("[[[["), 4);
}

TEST(JsonText, ParsesWhatOthersMayRecurseOver) {
  EXPECT_EQ(ParseJson(R"({"a": [1, 2]})"), (nlohmann::json{{"a", {1, 2}}}));
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonNesting)).is_array());
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonNesting + 1)).is_discarded());
  EXPECT_TRUE(ParseJson(Nested(3), 3).is_array());
  EXPECT_TRUE(ParseJson(Nested(4), 3).is_discarded());
  for (const char* bad : {"", "{", "nul", "[1,]", "{\"a\": \xFF}", "[] []"}) {
    EXPECT_TRUE(ParseJson(bad).is_discarded()) << bad;
  }
  // What would end the process when printed or copied.
  EXPECT_TRUE(ParseJson("{\"a\":" + Nested(1'000'000) + "}").is_discarded());
}

TEST(JsonText, ATaskThatNestsWithoutEndIsRefused) {
  const auto files = UnpackTaskFiles("{\"files\":{\"task.yaml\":" + Nested(1'000'000) + "}}");
  EXPECT_EQ(files.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fettle
