// SPDX-License-Identifier: Apache-2.0
// Every client against every fault, over real sockets.

#include "agent/llm/llm_client.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/llm/http_client.h"
#include "agent/llm/retry.h"
#include "core/text.h"
#include "tests/fakes/fake_http_server.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Piece = FakeHttpServer::Piece;
constexpr char kKey[] = "sk-secret-0123456789";

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

// The same conversation in each provider's form.
struct Dialect {
  std::string name;
  std::string start, call_part1, call_part2, end;  // A tool call cut in two, then the end.
  std::string text;                                // A piece of text.
  std::string bad_call;                            // A call whose JSON is cut off.
};

Dialect Anthropic() {
  return {
      .name = "anthropic",
      .start =
          Event(
              R"({"type":"message_start","message":{"id":"msg_1","model":"m-1","usage":{"input_tokens":11,"cache_read_input_tokens":5,"output_tokens":1}}})") +
          Event(
              R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"propose","input":{}}})"),
      .call_part1 = Event(
          R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"source\": \"x"}})"),
      .call_part2 = Event(
          R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"y\"}"}})"),
      .end =
          Event(
              R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}})") +
          Event(R"({"type":"message_stop"})"),
      .text = Event(
          R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello "}})"),
      .bad_call =
          Event(
              R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"propose"}})") +
          Event(
              R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"source\": \"x"}})"),
  };
}

Dialect OpenAi() {
  return {
      .name = "openai",
      .start = Event(
          R"({"id":"c-1","model":"m-1","choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"propose","arguments":""}}]}}]})"),
      .call_part1 = Event(
          R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"source\": \"x"}}]}}]})"),
      .call_part2 = Event(
          R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"y\"}"}}]}}]})"),
      .end =
          Event(R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}]})") +
          Event(
              R"({"choices":[],"usage":{"prompt_tokens":16,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens":42}})") +
          Event("[DONE]"),
      .text = Event(R"({"choices":[{"delta":{"content":"hello "}}]})"),
      .bad_call = Event(
          R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"propose","arguments":"{\"source\": \"x"}}]}}]})"),
  };
}

class LlmClientFaults : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    dialect_ = GetParam() == "anthropic" ? Anthropic() : OpenAi();
    Open(std::chrono::milliseconds(20000));
    request_.model = "m-1";
    request_.system = "be brief";
    request_.messages = {{.text = "improve this", .cache_mark = true}};
    request_.tools = {{"propose", "hand in a kernel", {{"type", "object"}}}};
  }
  void Open(std::chrono::milliseconds idle) {
    auto client = MakeLlmClient({.provider = GetParam(),
                                 .base_url = server_.url() + "/",
                                 .api_key = kKey,
                                 .headers = {{"x-team", "kernels"}},
                                 .idle_limit = idle},
                                http_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  absl::StatusOr<LlmReply> Ask() { return client_->Complete(request_, {}); }
  std::string Good() const {
    return dialect_.start + dialect_.call_part1 + dialect_.call_part2 + dialect_.end;
  }

  HttpClient http_;
  FakeHttpServer server_;
  Dialect dialect_;
  std::unique_ptr<LlmClient> client_;
  LlmRequest request_;
};

TEST_P(LlmClientFaults, ReadsToolCallsTextAndUsage) {
  // In pieces of a few bytes, as a slow network would bring them.
  FakeHttpServer::Answer answer = {{StreamHead()}};
  const std::string all = dialect_.text + Good();
  for (std::size_t at = 0; at < all.size(); at += 7) answer.push_back({all.substr(at, 7)});
  server_.Play({answer});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "hello ");
  ASSERT_EQ(reply->calls.size(), 1u);
  EXPECT_EQ(reply->calls[0].name, "propose");
  EXPECT_EQ(reply->calls[0].input, (nlohmann::json{{"source", "xy"}}));
  EXPECT_EQ(reply->stop, LlmReply::Stop::kToolUse);
  EXPECT_TRUE(reply->usage.reported);
  EXPECT_EQ(reply->usage.input_tokens, 11);
  EXPECT_EQ(reply->usage.cache_read_tokens, 5);
  EXPECT_EQ(reply->usage.output_tokens, 42);
  const std::string sent = server_.requests().at(0);
  EXPECT_THAT(sent, HasSubstr(kKey));
  EXPECT_THAT(sent, HasSubstr("x-team: kernels"));
  EXPECT_THAT(sent, HasSubstr("be brief"));
}

TEST_P(LlmClientFaults, HttpErrorsKeepTheirKindAndNeverTheKey) {
  struct Row {
    int status;
    absl::StatusCode code;
  };
  for (const Row row :
       {Row{401, absl::StatusCode::kUnauthenticated}, Row{403, absl::StatusCode::kUnauthenticated},
        Row{404, absl::StatusCode::kNotFound}, Row{400, absl::StatusCode::kInvalidArgument},
        Row{429, absl::StatusCode::kResourceExhausted}, Row{500, absl::StatusCode::kUnavailable},
        Row{502, absl::StatusCode::kUnavailable}, Row{529, absl::StatusCode::kUnavailable}}) {
    server_.Play({HttpAnswer(row.status, R"({"error":{"message":"no luck"}})")});
    const auto reply = Ask();
    EXPECT_EQ(reply.status().code(), row.code) << row.status;
    EXPECT_THAT(std::string(reply.status().message()), HasSubstr("no luck"));
    EXPECT_THAT(reply.status().ToString(), Not(HasSubstr(kKey)));
  }
}

TEST_P(LlmClientFaults, AKeyThatAServerRepeatsIsLeftOut) {
  const std::string says = std::string("no such key: ") + kKey + ", not " + kKey;
  server_.Play({HttpAnswer(401, R"({"error":{"message":")" + says + "\"}}")});
  const auto refused = Ask();
  EXPECT_TRUE(absl::IsUnauthenticated(refused.status()));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("no such key: (the key)"));
  EXPECT_THAT(refused.status().ToString(), Not(HasSubstr(kKey)));
  // Cut in the middle of it, where what is left would still be most of it.
  server_.Play({HttpAnswer(500, std::string(290, 'x') + kKey)});
  EXPECT_THAT(Ask().status().ToString(), Not(HasSubstr("sk-")));
  server_.Play(
      {{{StreamHead() + Event(R"({"type":"error","error":{"message":")" + says + "\"}}")}}});
  const auto broken = Ask();
  EXPECT_TRUE(absl::IsUnavailable(broken.status()));
  EXPECT_THAT(broken.status().ToString(), HasSubstr("(the key)"));
  EXPECT_THAT(broken.status().ToString(), Not(HasSubstr(kKey)));
  // So are secrets in further headers, also where one holds the other; short words are none.
  const std::string other = std::string("Token ") + kKey;
  auto client = MakeLlmClient({.provider = GetParam(),
                               .base_url = server_.url(),
                               .api_key = kKey,
                               .headers = {{"x-gateway", other}, {"x-team", "kernels"}}},
                              http_);
  ASSERT_TRUE(client.ok()) << client.status();
  server_.Play({HttpAnswer(403, "kernels may not use " + other + " here")});
  EXPECT_THAT((*client)->Complete(request_, {}).status().ToString(),
              HasSubstr("kernels may not use (the key) here"));
}

TEST_P(LlmClientFaults, LongErrorsAreCutBetweenCharacters) {
  std::string says = "x";
  for (int i = 0; i < 2'000; ++i) says += "\xC3\xA9";
  server_.Play({HttpAnswer(500, R"({"error":{"message":")" + says + "\"}}")});
  const auto refused = Ask();
  EXPECT_LT(refused.status().message().size(), 500u);
  EXPECT_TRUE(IsUtf8(std::string(refused.status().message())));
  server_.Play(
      {{{StreamHead() + Event(R"({"type":"error","error":{"message":")" + says + "\"}}")}}});
  const auto broken = Ask();
  EXPECT_LT(broken.status().message().size(), 1'000u);
  EXPECT_TRUE(IsUtf8(std::string(broken.status().message())));
}

TEST_P(LlmClientFaults, TheTotalLimitEndsAStreamThatNeverStopsTalking) {
  auto client = MakeLlmClient({.provider = GetParam(),
                               .base_url = server_.url(),
                               .total_limit = std::chrono::milliseconds(200),
                               .idle_limit = std::chrono::seconds(60)},
                              http_);
  ASSERT_TRUE(client.ok());
  server_.Play({{{StreamHead() + dialect_.start + dialect_.text, Piece::After::kStall}}});
  const auto reply = (*client)->Complete(request_, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status())) << reply.status();
}

TEST_P(LlmClientFaults, AProxyOfTheEnvironmentIsUsed) {
  auto client = MakeLlmClient(
      {.provider = GetParam(), .base_url = "http://model.invalid", .api_key = kKey}, http_);
  ASSERT_TRUE(client.ok());
  server_.Play({{{StreamHead() + Good()}}});
  setenv("http_proxy", server_.url().c_str(), 1);
  const auto reply = (*client)->Complete(request_, {});
  unsetenv("http_proxy");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(server_.requests().at(0), ::testing::StartsWith("POST http://model.invalid/v1/"));
}

TEST_P(LlmClientFaults, RetryAfterIsReadAsANumberOrADate) {
  server_.Play({HttpAnswer(429, "{}", "Retry-After: 7\r\n")});
  EXPECT_EQ(RetryAfter(Ask().status()), std::chrono::milliseconds(7000));
  server_.Play({HttpAnswer(429, "{}", "Retry-After: soon\r\n")});
  EXPECT_EQ(RetryAfter(Ask().status()), std::nullopt);
  const auto date = [](std::time_t at) {
    char text[64];
    std::tm utc{};
    std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&at, &utc));
    return std::string(text);
  };
  server_.Play({HttpAnswer(429, "{}", "Retry-After: " + date(std::time(nullptr) + 900) + "\r\n")});
  const auto wait = RetryAfter(Ask().status());
  ASSERT_TRUE(wait.has_value());
  EXPECT_LE(*wait, std::chrono::seconds(900));
  EXPECT_GE(*wait, std::chrono::seconds(600));
  server_.Play({HttpAnswer(429, "{}", "Retry-After: " + date(1'000'000'000) + "\r\n")});
  EXPECT_EQ(RetryAfter(Ask().status()), std::chrono::milliseconds(0));
  // By the clock of the server that says it: the one here may be wrong by years.
  for (const std::int64_t now : {std::int64_t{1'000'000'000}, std::int64_t{3'000'000'000}}) {
    server_.Play({HttpAnswer(
        429, "{}", "Date: " + date(now) + "\r\nRetry-After: " + date(now + 90) + "\r\n")});
    EXPECT_EQ(RetryAfter(Ask().status()), std::chrono::milliseconds(90'000));
  }
  server_.Play({HttpAnswer(429, "{}", "Retry-After: 99999999\r\n")});
  EXPECT_EQ(RetryAfter(Ask().status()), std::chrono::hours(24 * 30));
}

TEST_P(LlmClientFaults, AWaitBeyondTheLimitIsNamed) {
  server_.Play({HttpAnswer(429, R"({"error":{"message":"slow down"}})", "Retry-After: 7200\r\n")});
  int slept = 0;
  const auto sleep = [&](std::chrono::milliseconds, std::stop_token) { return ++slept > 0; };
  RetryingClient retrying(*client_, {}, sleep, std::chrono::steady_clock::now, nullptr, 1);
  const auto reply = retrying.Complete(request_, {});
  EXPECT_TRUE(absl::IsResourceExhausted(reply.status()));
  EXPECT_EQ(slept, 0);
  EXPECT_THAT(std::string(reply.status().message()),
              HasSubstr("asks to wait 7200 s, which is beyond the 1200 s"));
}

TEST_P(LlmClientFaults, ResetAndCutStreamsAreErrors) {
  server_.Play({{{StreamHead() + dialect_.start, Piece::After::kReset}}});
  const auto reset = Ask();
  EXPECT_TRUE(absl::IsUnavailable(reset.status()) || absl::IsDataLoss(reset.status()))
      << reset.status();
  server_.Play({{{StreamHead() + dialect_.start + dialect_.call_part1}}});
  EXPECT_TRUE(absl::IsDataLoss(Ask().status()));
  server_.Play({{{StreamHead()}}});
  EXPECT_TRUE(absl::IsDataLoss(Ask().status()));
}

TEST_P(LlmClientFaults, AStalledStreamEndsAtTheIdleLimit) {
  Open(std::chrono::milliseconds(150));
  server_.Play({{{StreamHead() + dialect_.start, Piece::After::kStall}}});
  const auto reply = Ask();
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status())) << reply.status();
}

TEST_P(LlmClientFaults, CancellingEndsTheCallAtOnce) {
  server_.Play({{{StreamHead() + dialect_.start, Piece::After::kStall}}});
  std::stop_source stop;
  std::jthread canceller([&] {
    server_.AwaitRequests(1);
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = client_->Complete(request_, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(reply.status())) << reply.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(LlmClientFaults, HalfACharacterDoesNotLoseTheAnswer) {
  std::string text = dialect_.text;
  text.replace(text.find("hello "), 6, "caf\xC3");  // é without its second byte.
  server_.Play({{{StreamHead() + text + Good()}}});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->text, HasSubstr("caf\xEF\xBF\xBD"));
}

TEST_P(LlmClientFaults, TruncatedArgumentsAreMarkedNotLost) {
  server_.Play({{{StreamHead() + dialect_.bad_call + dialect_.end}}});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->calls.size(), 1u);
  EXPECT_TRUE(reply->calls[0].input.is_null());
  EXPECT_EQ(reply->calls[0].raw_input, "{\"source\": \"x");
}

TEST_P(LlmClientFaults, AnEndlessAnswerIsCutOff) {
  std::string piece = dialect_.text;
  piece.replace(piece.find("hello "), 6, std::string(64 << 10, 'x'));
  FakeHttpServer::Answer answer = {{StreamHead()}};
  for (int i = 0; i < 40; ++i) answer.push_back({piece});
  server_.Play({answer});
  EXPECT_TRUE(absl::IsOutOfRange(Ask().status()));
}

// Whatever the field is called that it comes in, what is kept of one answer is bounded.
TEST_P(LlmClientFaults, NoFieldOfAnAnswerGrowsWithoutEnd) {
  const std::string piece(64 << 10, 'y');
  const auto numbered = [](std::string text, int number) {
    const std::size_t at = text.find("NUMBER");
    return at == std::string::npos ? text : text.replace(at, 6, std::to_string(number));
  };
  const bool anthropic = GetParam() == "anthropic";
  const std::vector<std::string> forms =
      anthropic
          ? std::vector<
                std::
                    string>{R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":")" +
                                piece + R"("}})",
                            R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":")" +
                                piece + R"("}})",
                            R"({"type":"content_block_start","index":NUMBER,"content_block":{"type":"redacted_thinking","data":")" +
                                piece + R"("}})",
                            R"({"type":"content_block_start","index":NUMBER,"content_block":{"type":"tool_use","id":")" +
                                piece + R"(","name":"propose"}})",
                            R"({"type":"content_block_start","index":NUMBER,"content_block":{"type":"tool_use","id":"t","name":")" +
                                piece + R"("}})",
                            R"({"type":"content_block_start","index":NUMBER,"content_block":{"type":"new","x":{")" +
                                piece + R"(":1}}})"}
          : std::vector<std::string>{
                R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":")" +
                    piece + R"("}}]}}]})",
                R"({"choices":[{"delta":{"tool_calls":[{"index":NUMBER,"id":")" + piece +
                    R"(","function":{"name":"plan"}}]}}]})",
                R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":")" +
                    piece + R"("}}]}}]})",
                R"({"choices":[{"delta":{"refusal":")" + piece + R"("}}]})"};
  for (const std::string& form : forms) {
    FakeHttpServer::Answer answer = {{StreamHead()}};
    for (int i = 0; i < 40; ++i) answer.push_back({Event(numbered(form, i))});
    answer.push_back({dialect_.end});
    server_.Play({answer});
    EXPECT_TRUE(absl::IsOutOfRange(Ask().status())) << form.substr(0, 120);
  }
  // Very many empty ones take memory too.
  std::string many;
  for (int i = 0; i < 20'000; ++i) {
    many += Event(numbered(
        anthropic
            ? R"({"type":"content_block_start","index":NUMBER,"content_block":{"type":"text"}})"
            : R"({"choices":[{"delta":{"tool_calls":[{"index":NUMBER}]}}]})",
        i));
  }
  server_.Play({{{StreamHead() + many + dialect_.end}}});
  EXPECT_TRUE(absl::IsOutOfRange(Ask().status()));
  // Labels are cut, and a usual answer beside them is taken.
  const std::string label(1 << 20, 'z');
  server_.Play({{{StreamHead() +
                  Event(anthropic ? R"({"type":"message_start","message":{"id":"m","model":")" +
                                        label + "\"}}"
                                  : R"({"id":"c","model":")" + label + "\"}") +
                  Good()}}});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_LT(reply->model.size(), 1'000U);
}

// An answer is whole with its last event; what a server does with the connection then is its own
// affair.
TEST_P(LlmClientFaults, AWholeAnswerIsTakenWhileTheConnectionStaysOpen) {
  Open(std::chrono::minutes(10));
  server_.Play({{{StreamHead() + dialect_.text + Good(), Piece::After::kStall}}});
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "hello ");
  EXPECT_EQ(reply->calls.size(), 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

// Servers that do not stream answer with one document.
TEST_P(LlmClientFaults, AnAnswerWithoutStreamIsRead) {
  const bool anthropic = GetParam() == "anthropic";
  const std::string whole =
      anthropic ? R"({"type":"message","id":"m","model":"m-1","role":"assistant","content":[
               {"type":"text","text":"hello "},
               {"type":"tool_use","id":"t1","name":"propose","input":{"source":"xy"}},
               {"type":"tool_use","id":"t2","name":"compile","input":{}}],
               "stop_reason":"tool_use","usage":{"input_tokens":11,"cache_read_input_tokens":5,
               "output_tokens":42}})"
                : R"({"id":"c","model":"m-1","object":"chat.completion","choices":[{"index":0,
               "message":{"role":"assistant","content":"hello ","tool_calls":[
               {"id":"t1","type":"function","function":{"name":"propose",
                "arguments":"{\"source\":\"xy\"}"}},
               {"id":"t2","type":"function","function":{"name":"compile","arguments":"{}"}}]},
               "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":16,
               "prompt_tokens_details":{"cached_tokens":5},"completion_tokens":42}})";
  server_.Play({HttpAnswer(200, whole)});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "hello ");
  ASSERT_EQ(reply->calls.size(), 2U);
  EXPECT_EQ(reply->calls[0].id, "t1");
  EXPECT_EQ(reply->calls[0].input, (nlohmann::json{{"source", "xy"}}));
  EXPECT_EQ(reply->calls[1].name, "compile");
  EXPECT_EQ(reply->stop, LlmReply::Stop::kToolUse);
  EXPECT_EQ(reply->usage.input_tokens, 11);
  EXPECT_EQ(reply->usage.output_tokens, 42);
  // Neither a stream nor an answer: asking again changes nothing, and the message says what came.
  for (const char* other : {R"({"status":"fine"})", "<html>welcome</html>", "{\"content\": [cut"}) {
    server_.Play({HttpAnswer(200, other)});
    const auto refused = Ask();
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no stream of events"));
    EXPECT_FALSE(IsUnbilled(refused.status()));
  }
  // An error in place of an answer is one, whatever its status says.
  server_.Play({HttpAnswer(200, R"({"type":"error","error":{"message":"busy"}})")});
  const auto error = Ask();
  EXPECT_TRUE(absl::IsUnavailable(error.status())) << error.status();
  EXPECT_TRUE(IsUnbilled(error.status()));
  // Its length is bounded like that of others.
  server_.Play({HttpAnswer(200, "{\"x\": \"" + std::string(3 << 20, 'x') + "\"}")});
  EXPECT_TRUE(absl::IsOutOfRange(Ask().status()));
}

// What a server repeats of a key in a good answer would otherwise be stored and sent again.
TEST_P(LlmClientFaults, AKeyInAnAnswerIsLeftOut) {
  const std::string gateway = "Bearer gw-0123456789abcdef";
  auto client = MakeLlmClient({.provider = GetParam(),
                               .base_url = server_.url(),
                               .api_key = kKey,
                               .headers = {{"x-gateway", gateway}, {"x-team", "optimizers"}}},
                              http_);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return text.replace(at, from.size(), to);
  };
  const std::string says = std::string(kKey) + " gw-0123456789abcdef optimizers";
  std::string events =
      with(dialect_.text, "hello ", says + " ") + with(dialect_.start, "propose", kKey) +
      with(dialect_.call_part1, R"(\"x)", R"(\")" + says) + dialect_.call_part2 + dialect_.end;
  if (GetParam() == "anthropic") {  // In a block that is echoed as it came.
    events =
        Event(
            R"({"type":"content_block_start","index":5,"content_block":{"type":"thinking","thinking":"","signature":"s"}})") +
        Event(
            R"({"type":"content_block_delta","index":5,"delta":{"type":"thinking_delta","thinking":")" +
            std::string(kKey) + "\"}}") +
        events;
  }
  server_.Play({{{StreamHead() + events}}});
  const auto reply = (*client)->Complete(request_, {});
  ASSERT_TRUE(reply.ok()) << reply.status();
  const std::string kept = ToJson(*reply).dump();
  EXPECT_THAT(kept, Not(HasSubstr(kKey)));
  EXPECT_THAT(kept, Not(HasSubstr("gw-0123456789abcdef")));
  EXPECT_THAT(reply->text, HasSubstr("(the key) (the key) optimizers"));
  EXPECT_EQ(reply->calls.at(0).name, "(the key)");
  EXPECT_EQ(reply->calls.at(0).input["source"], "(the key) (the key) optimizersy");
  EXPECT_TRUE(reply->raw.is_null());  // A signed block is whole or not there.
  // Written with escapes, it is the same key.
  server_.Play({{{StreamHead() + dialect_.start +
                  with(dialect_.call_part1, R"(\"x)", R"(\"\\u0073k-secret-0123456789)") +
                  dialect_.call_part2 + dialect_.end}}});
  const auto escaped = (*client)->Complete(request_, {});
  ASSERT_TRUE(escaped.ok()) << escaped.status();
  EXPECT_EQ(escaped->calls.at(0).input["source"], "(the key)y");
  EXPECT_THAT(escaped->calls.at(0).raw_input, Not(HasSubstr("secret")));
}

// Counts that no answer can have are still counts: nothing that is absurd is free.
TEST_P(LlmClientFaults, AbsurdUsageIsKeptAsMuch) {
  for (const char* count : {"1000000000000", "1152921504606846976", "1e300"}) {
    std::string end = dialect_.end;
    const std::size_t at = end.find(":42");
    ASSERT_NE(at, std::string::npos);
    end.replace(at + 1, 2, count);
    server_.Play(
        {{{StreamHead() + dialect_.start + dialect_.call_part1 + dialect_.call_part2 + end}}});
    const auto reply = Ask();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_GE(reply->usage.output_tokens, 1'000'000'000'000) << count;
    EXPECT_EQ(LlmReplyFromJson(ToJson(*reply))->usage.output_tokens, reply->usage.output_tokens);
  }
}

TEST_P(LlmClientFaults, GarbageIsDataLossAndWrongTypesAreSurvived) {
  server_.Play({{{StreamHead() + "data: this is no json\n\n"}}});
  EXPECT_TRUE(absl::IsDataLoss(Ask().status()));
  for (const char* odd :
       {R"({"type":7})", R"({"type":"content_block_delta","index":"x","delta":3})",
        R"({"choices":{"a":1}})", R"({"choices":[4]})", R"({"choices":[{"delta":[]}]})",
        R"({"usage":"many"})", R"({"usage":{"prompt_tokens":-5}})",
        R"({"type":"message_start","message":[]})",
        R"({"choices":[{"delta":{"tool_calls":[{"function":"f"}]}}]})"}) {
    server_.Play({{{StreamHead() + Event(odd) + Good()}}});
    const auto reply = Ask();
    EXPECT_TRUE(reply.ok()) << odd << reply.status();
  }
}

TEST_P(LlmClientFaults, NestingWithoutEndIsRefusedWhereverItStands) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  // As arguments of a call: they count as unreadable, and printing what came is safe.
  std::string call = dialect_.bad_call;
  const std::string cut = R"({\"source\": \"x)";
  ASSERT_NE(call.find(cut), std::string::npos);
  call.replace(call.find(cut), cut.size(), R"({\"source\": )" + deep + "}");
  server_.Play({{{StreamHead() + call + dialect_.end}}});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->calls.size(), 1u);
  EXPECT_TRUE(reply->calls[0].input.is_null());
  EXPECT_GT(ToJson(*reply).dump().size(), deep.size());
  // As an event of the stream, its error, or a block that is to be echoed.
  for (const std::string& odd :
       {R"({"type":"ping","x":)" + deep + "}", R"({"error":)" + deep + "}",
        R"({"type":"content_block_start","index":3,"content_block":{"type":"new","x":)" + deep +
            "}}"}) {
    server_.Play({{{StreamHead() + Event(odd) + Good()}}});
    EXPECT_TRUE(absl::IsDataLoss(Ask().status())) << odd.substr(0, 60);
  }
  // As an error's body, which is longer than what is kept of it.
  server_.Play({HttpAnswer(400, R"({"error":)" + deep + "}")});
  EXPECT_TRUE(absl::IsInvalidArgument(Ask().status()));
}

TEST_P(LlmClientFaults, RetriesWhatMaySucceedAndStopsAtItsLimits) {
  server_.Play({HttpAnswer(529, "{}"),
                HttpAnswer(429, "{}", "Retry-After: 3\r\n"),
                {{StreamHead() + dialect_.start}},
                {{StreamHead() + Good()}}});
  std::vector<std::chrono::milliseconds> waits;
  auto now = std::chrono::steady_clock::now();
  const auto sleep = [&](std::chrono::milliseconds wait, std::stop_token) {
    waits.push_back(wait);
    now += wait;
    return true;
  };
  RetryingClient retrying(
      *client_, {}, sleep, [&] { return now; }, nullptr, 1);
  const auto reply = retrying.Complete(request_, {});
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(waits.size(), 3u);
  EXPECT_EQ(waits[1], std::chrono::seconds(3));
  EXPECT_GE(waits[0], std::chrono::milliseconds(500));
  EXPECT_LE(waits[0], std::chrono::milliseconds(1000));

  server_.Play({HttpAnswer(500, "{}")});
  waits.clear();
  const auto failed = retrying.Complete(request_, {});
  EXPECT_TRUE(absl::IsUnavailable(failed.status()));
  EXPECT_EQ(waits.size(), 5u);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("6 attempts"));

  server_.Play({HttpAnswer(401, "{}")});
  waits.clear();
  EXPECT_TRUE(absl::IsUnauthenticated(retrying.Complete(request_, {}).status()));
  EXPECT_TRUE(waits.empty());
}

TEST_P(LlmClientFaults, AClockThatJumpsEndsTheWaitingAndNothingElse) {
  server_.Play({HttpAnswer(500, "{}")});
  for (const auto jump : {std::chrono::hours(-1000), std::chrono::hours(1000)}) {
    auto now = std::chrono::steady_clock::now();
    int slept = 0;
    const auto sleep = [&](std::chrono::milliseconds, std::stop_token) {
      ++slept;
      now += jump;
      return true;
    };
    RetryingClient retrying(
        *client_, {}, sleep, [&] { return now; }, nullptr, 1);
    EXPECT_TRUE(absl::IsUnavailable(retrying.Complete(request_, {}).status()));
    EXPECT_LE(slept, 5);
  }
  server_.Play({{{StreamHead() + Good()}}});
  EXPECT_TRUE(Ask().ok());
}

TEST_P(LlmClientFaults, WhatSurelyCostNothingIsMarked) {
  for (const int status : {401, 404, 429, 500, 529}) {
    server_.Play({HttpAnswer(status, "{}")});
    EXPECT_TRUE(IsUnbilled(Ask().status())) << status;
  }
  server_.Play({{{StreamHead() + dialect_.start}}});
  EXPECT_FALSE(IsUnbilled(Ask().status()));
  server_.Play({{{StreamHead() + dialect_.start, Piece::After::kReset}}});
  EXPECT_FALSE(IsUnbilled(Ask().status()));
}

TEST_P(LlmClientFaults, RecordedRepliesReadBackEqual) {
  server_.Play({{{StreamHead() + dialect_.text + Good()}}});
  const auto reply = Ask();
  ASSERT_TRUE(reply.ok());
  const auto again = LlmReplyFromJson(ToJson(*reply));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToJson(*again), ToJson(*reply));
  EXPECT_THAT(ToJson(request_).dump() + ToJson(*reply).dump(), Not(HasSubstr(kKey)));
}

INSTANTIATE_TEST_SUITE_P(Providers, LlmClientFaults, ::testing::Values("anthropic", "openai"),
                         [](const auto& param) { return param.param; });

// What stays the same in the next question is paid once: its end is marked for the cache.
TEST(Anthropic, MarksWhatMayBeCached) {
  FakeHttpServer server;
  HttpClient http;
  auto client = MakeLlmClient({.provider = "anthropic", .base_url = server.url()}, http);
  ASSERT_TRUE(client.ok());
  server.Play({HttpAnswer(500, "{}")});
  const LlmRequest request{.model = "m",
                           .system = "rules",
                           .messages = {{.text = "the task", .cache_mark = true},
                                        {.role = LlmMessage::Role::kAssistant, .text = "so"},
                                        {.text = "the rest"}}};
  EXPECT_FALSE((*client)->Complete(request, {}).ok());
  const std::string sent = server.requests().at(0);
  const auto body = nlohmann::json::parse(sent.substr(sent.find("\r\n\r\n") + 4));
  const nlohmann::json mark = {{"type", "ephemeral"}};
  EXPECT_EQ(body["system"][0]["cache_control"], mark);
  EXPECT_EQ(body["messages"][0]["content"].back()["cache_control"], mark);
  EXPECT_EQ(body["messages"][2].dump().find("cache_control"), std::string::npos);
}

TEST(Anthropic, EchoesReasoningBlocksUnchanged) {
  FakeHttpServer server;
  HttpClient http;
  auto client = MakeLlmClient({.provider = "anthropic", .base_url = server.url()}, http);
  ASSERT_TRUE(client.ok());
  const auto block = [](const char* text) { return Event(text); };
  server.Play(
      {{{StreamHead() +
         block(
             R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})") +
         block(
             R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}})") +
         block(
             R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig=="}})") +
         block(
             R"({"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"zzz"}})") +
         block(
             R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"compile","input":{}}})") +
         block(
             R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}})") +
         block(
             R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}})") +
         block(R"({"type":"message_stop"})")}}});
  LlmRequest request{.model = "m", .messages = {{.text = "go"}}};
  const auto reply = (*client)->Complete(request, {});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "");
  request.messages.push_back(
      {.role = LlmMessage::Role::kAssistant, .calls = reply->calls, .raw = reply->raw});
  request.messages.push_back({.results = {{"t1", "fine"}}});
  ASSERT_TRUE((*client)->Complete(request, {}).ok());
  const std::string sent = server.requests().at(1);
  const auto body = nlohmann::json::parse(sent.substr(sent.find("\r\n\r\n") + 4));
  EXPECT_EQ(body["messages"][1]["content"], nlohmann::json::parse(R"([
      {"type": "thinking", "thinking": "hm", "signature": "sig=="},
      {"type": "redacted_thinking", "data": "zzz"},
      {"type": "tool_use", "id": "t1", "name": "compile", "input": {"a": 1}}])"));
}

TEST(OpenAi, NamesTheLongestAnswerAsTheServerWantsIt) {
  FakeHttpServer server;
  HttpClient http;
  for (const std::string field : {"max_tokens", "max_completion_tokens"}) {
    auto client =
        MakeLlmClient({.provider = "openai", .base_url = server.url(), .limit_field = field}, http);
    ASSERT_TRUE(client.ok());
    server.Play({HttpAnswer(400, "{}")});
    EXPECT_FALSE((*client)->Complete({.model = "m", .max_output_tokens = 77}, {}).ok());
    const std::string sent = server.requests().back();
    const auto body = nlohmann::json::parse(sent.substr(sent.find("\r\n\r\n") + 4));
    EXPECT_EQ(body.value(field, 0), 77);
    EXPECT_NE(body.contains("max_tokens"), body.contains("max_completion_tokens"));
  }
}

TEST(HttpClient, ManyWaitingCallsShareOneThread) {
  FakeHttpServer server;
  server.Play({{{StreamHead(), Piece::After::kStall}}});
  HttpClient http;
  std::stop_source stop;
  std::atomic<int> cancelled = 0;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 50; ++i) {
      callers.emplace_back([&] {
        const HttpPost request{.url = server.url(), .body = "{}"};
        const auto response = http.Post(
            request, [](const HttpPosted&, std::string_view) { return HttpClient::Next::kGoOn; },
            stop.get_token());
        if (absl::IsCancelled(response.status())) ++cancelled;
      });
    }
    server.AwaitRequests(50);
    stop.request_stop();
  }
  EXPECT_EQ(cancelled, 50);
}

TEST(HttpClient, RefusesOtherProtocolsAndDeadAddresses) {
  HttpClient http;
  const auto take = [](const HttpPosted&, std::string_view) { return HttpClient::Next::kGoOn; };
  EXPECT_FALSE(http.Post({.url = "file:///etc/hostname"}, take, {}).ok());
  EXPECT_TRUE(absl::IsUnavailable(http.Post({.url = "http://127.0.0.1:1/"}, take, {}).status()));
}

}  // namespace
}  // namespace fettle
