// SPDX-License-Identifier: Apache-2.0
#include "agent/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/llm/provider.h"
#include "core/text.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

std::size_t Sent(const LlmRequest& request) {
  std::size_t most = 0;
  for (const auto& provider : {AnthropicProvider(), OpenAiProvider("max_completion_tokens")}) {
    most = std::max(most, provider->Body(request).dump(-1, ' ', false, kReplaceInvalid).size());
  }
  return most;
}

// A question of so many bytes, and turns with a call and a result each.
LlmRequest Talk(std::size_t question, int turns, const std::string& argument,
                const std::string& result) {
  LlmRequest request;
  request.model = "m";
  request.system = "rules";
  request.tools = {{"compile", "compiles", {{"type", "object"}}}};
  request.messages.push_back({.text = std::string(question, 'q')});
  for (int i = 0; i < turns; ++i) {
    const std::string id = "t" + std::to_string(i);
    const nlohmann::json input = {{"source", argument}};
    LlmMessage turn;
    turn.role = LlmMessage::Role::kAssistant;
    turn.calls = {{id, "compile", input, input.dump(-1, ' ', false, kReplaceInvalid)}};
    request.messages.push_back(std::move(turn));
    LlmMessage answer;
    answer.results = {{id, result}};
    request.messages.push_back(std::move(answer));
  }
  return request;
}

TEST(Conversation, CountsWhatIsSent) {
  for (const std::string& text :
       {std::string("x"), std::string(500, '\n'), std::string(500, '"'), std::string(500, '\\'),
        std::string(500, '\x01'), std::string(500, '\xC3'), std::string("\xC3\xA9\xE2\x82\xAC")}) {
    LlmRequest request = Talk(10, 3, text, text);
    request.messages[1].text = text;
    request.messages[3].raw = {{{"type", "thinking"}, {"thinking", ValidUtf8(text)}}};
    const std::size_t sent = Sent(request);
    EXPECT_GE(RequestBytes(request), sent);
    EXPECT_LE(RequestBytes(request), 3 * sent + 4'000);
  }
}

TEST(Conversation, LeavesAloneWhatFits) {
  LlmRequest request = Talk(1'000, 4, "source", "result");
  const nlohmann::json before = ToJson(request);
  EXPECT_TRUE(FitConversation(request, 20'000));
  EXPECT_EQ(ToJson(request), before);
}

// Results of older turns are cut first, then the oldest turns go; the last one stays as it is.
TEST(Conversation, CutsOldResultsThenDropsOldTurns) {
  LlmRequest request = Talk(1'000, 6, "source", std::string(4'000, 'r'));
  ASSERT_TRUE(FitConversation(request, 24'000));
  EXPECT_LE(Sent(request), 24'000U);
  EXPECT_EQ(request.messages.size(), 13U);
  EXPECT_THAT(request.messages[2].results[0].text, HasSubstr("4000 bytes in all"));
  EXPECT_EQ(request.messages.back().results[0].text.size(), 4'000U);

  request = Talk(1'000, 6, std::string(5'000, 's'), "result");
  ASSERT_TRUE(FitConversation(request, 24'000));
  EXPECT_LE(Sent(request), 24'000U);
  EXPECT_LT(request.messages.size(), 13U);
  EXPECT_THAT(request.messages.front().text, HasSubstr("Earlier turns"));
  EXPECT_EQ(request.messages.back().results[0].id, "t5");
  // There is room for the next turn: nothing changes with it.
  LlmRequest next = request;
  const LlmRequest more = Talk(1, 1, "small", "small");
  next.messages.insert(next.messages.end(), more.messages.begin() + 1, more.messages.end());
  const nlohmann::json before = ToJson(next);
  ASSERT_TRUE(FitConversation(next, 24'000));
  EXPECT_EQ(ToJson(next), before);
}

TEST(Conversation, AQuestionIsCutInItsMiddleOnCharacters) {
  LlmRequest request = Talk(0, 0, "", "");
  std::string text = "begin ";
  for (int i = 0; i < 10'000; ++i) text += "\xE2\x82\xAC";
  request.messages[0].text = text + " end";
  ASSERT_TRUE(FitConversation(request, 8'000));
  EXPECT_LE(Sent(request), 8'000U);
  EXPECT_TRUE(IsUtf8(request.messages[0].text));
  EXPECT_TRUE(request.messages[0].text.starts_with("begin "));
  EXPECT_TRUE(request.messages[0].text.ends_with(" end"));
  EXPECT_FALSE(FitConversation(request, 300));
}

}  // namespace
}  // namespace fettle
