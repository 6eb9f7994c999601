// SPDX-License-Identifier: Apache-2.0
#include "agent/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

VerdictRecord Rejected() {
  VerdictRecord verdict;
  verdict.verdict = Verdict::kCompileError;
  verdict.stage = Stage::kCompile;
  verdict.reason_code = "compile_rejected";
  verdict.message = "kernel.cu:1:1: error";
  verdict.evidence = {{"log", std::string(200'000, 'x')}, {"diagnostics", nlohmann::json::array()}};
  return verdict;
}

TEST(Feedback, NeverExceedsItsBudget) {
  UnitResult result;
  result.verdict = Rejected();
  BuildRecord build;
  build.log = std::string(64'000, '"');  // Two bytes each as JSON.
  build.diagnostics = nlohmann::json::array();
  for (int i = 0; i < 2'000; ++i) {
    build.diagnostics.push_back({{"file", "k.cu"},
                                 {"line", i},
                                 {"column", 1},
                                 {"severity", i == 1'999 ? "error" : "warning"},
                                 {"text", std::string(2'000, 'w')}});
  }
  build.facts = {{"kernels", nlohmann::json::array()}};
  for (int i = 0; i < 500; ++i) {
    build.facts["kernels"].push_back({{"name", std::string(500, 'k')}, {"registers", i}});
  }
  result.builds = {build};
  result.verification.emplace();
  for (int i = 0; i < 500; ++i) {
    result.verification->cases.push_back(
        {.case_label = "checked/1", .describe = std::string(900, 'd')});
  }
  const VerdictRecord verdict = Rejected();
  FeedbackInput input;
  input.verdict = &verdict;
  input.evaluation = &result;
  for (const std::size_t limit :
       {kMaxReplyBytes, std::size_t{6'000}, std::size_t{1'500}, std::size_t{300}}) {
    const auto feedback = MakeFeedback(input, limit);
    EXPECT_LE(feedback.dump(-1, ' ', false, kReplaceInvalid).size(), limit);
    EXPECT_EQ(feedback["verdict"]["verdict"], "COMPILE_ERROR");
  }
  // Errors come before warnings.
  EXPECT_EQ(MakeFeedback(input)["compile"]["diagnostics"][0]["severity"], "error");
}

TEST(Feedback, TellsWhereAResultIsWrong) {
  UnitResult result;
  result.verification.emplace();
  CaseReport bad;
  bad.case_label = "checked/2";
  bad.describe = "n=7";
  bad.outputs = {{.output = "y",
                  .worst = 4,
                  .mismatches = 2,
                  .compared = 7,
                  .first_index = 3,
                  .expected = 1,
                  .actual = 2}};
  result.verification->cases = {bad, {.case_label = "checked/3", .passed = true}};
  FeedbackInput input;
  input.evaluation = &result;
  const auto feedback = MakeFeedback(input);
  EXPECT_EQ(feedback["correctness"]["cases_passed"], 1);
  EXPECT_EQ(feedback["correctness"]["failed_cases"][0]["outputs"][0]["actual"], 2);
  EXPECT_FALSE(feedback.contains("verdict"));
}

TEST(Feedback, EveryVerdictHasANextAction) {
  for (int i = 0; i <= static_cast<int>(Verdict::kUnsupportedShape); ++i) {
    VerdictRecord verdict;
    verdict.verdict = static_cast<Verdict>(i);
    EXPECT_FALSE(NextAction(verdict).empty()) << i;
  }
}

TEST(Feedback, TellsCountersWithTheirUnitsAndWhyThereAreNone) {
  UnitResult result;
  result.counters = {{"tool", "ncu"},
                     {"kernels",
                      {{{"kernel", "norm"},
                        {"launches", 1},
                        {"facts",
                         {{"dram_read_bytes", {{"value", 2.5e8}, {"unit", "byte"}}},
                          {"odd", {{"value", "much"}, {"unit", 7}}}}}}}}};
  FeedbackInput input;
  input.evaluation = &result;
  const json counted = MakeFeedback(input)["counters"];
  EXPECT_EQ(counted["kernels"][0],
            (json{{"kernel", "norm"}, {"facts", {{"dram_read_bytes", "2.5e+08 byte"}}}}));
  result.counters = {{"absent", std::string(5'000, 'x')}};
  EXPECT_LT(MakeFeedback(input)["counters"]["absent"].get<std::string>().size(), 2'000U);
  result.counters = {{"kernels", {1, {{"facts", 7}}}}};
  EXPECT_NO_THROW(MakeFeedback(input));
}

TEST(PageOf, CoversTheTextExactlyOnce) {
  std::string text;
  for (int i = 0; i < 3'000; ++i)
    text += "line \xC3\xA9 " + std::to_string(i) + (i % 3 == 0 ? "\n" : "");
  std::string seen, cursor;
  int pages = 0;
  do {
    const auto page = PageOf(text, cursor, 1'000);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->text.size(), 1'000U);
    EXPECT_TRUE(IsUtf8(page->text));
    seen += page->text;
    cursor = page->next_cursor;
    ++pages;
  } while (!cursor.empty());
  EXPECT_EQ(seen, text);
  EXPECT_GT(pages, 10);
  EXPECT_FALSE(PageOf(text, "x").ok());
  EXPECT_FALSE(PageOf(text, "99999999").ok());
  EXPECT_EQ(PageOf("", "")->text, "");
}

}  // namespace
}  // namespace fettle
