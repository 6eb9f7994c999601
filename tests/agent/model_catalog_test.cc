// SPDX-License-Identifier: Apache-2.0
#include "agent/model_catalog.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/agent_data.h"
#include "agent/llm/secrets.h"
#include "agent/recording.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

LlmRequest Request(const std::string& text) {
  LlmRequest request;
  request.messages = {{.text = text}};
  request.max_output_tokens = 1'000;
  return request;
}

TEST(ModelCatalog, TheBundledOneParsesAndNamesItsModels) {
  const auto catalog = LoadModelCatalog("");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_TRUE(catalog->Find("").ok());
  const auto missing = catalog->Find("gpt-0");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(StatusText(missing.status()), HasSubstr("local"));
}

TEST(ModelCatalog, MistakesAreNamed) {
  const auto expect = [](const std::string& text, const std::string& field) {
    const auto catalog = ParseModelCatalog(text);
    EXPECT_TRUE(absl::IsInvalidArgument(catalog.status())) << text;
    EXPECT_THAT(StatusText(catalog.status()), HasSubstr(field));
  };
  expect("[]", "models file");
  expect(R"({"format": 2, "models": {}})", "format");
  expect(R"({"format": 1, "models": {"m": {}}})", "provider");
  expect(R"({"format": 1, "models": {"m": {"provider": "x", "base_url": "u", "context_tokens": 1,
           "max_output_tokens": 1, "usd_per_million": {"input": 0, "output": 0, "cache_read": 0,
           "cache_write": 0}}}})",
         "anthropic or openai");
  expect(
      R"({"format": 1, "models": {"m": {"provider": "openai", "base_url": "u", "context_tokens": 1,
           "max_output_tokens": 1, "usd_per_million": {"input": -1, "output": 0, "cache_read": 0,
           "cache_write": 0}}}})",
      "negative");
  expect(
      R"({"format": 1, "models": {"m": {"provider": "openai", "base_url": "u", "context_tokens": 1,
           "max_output_tokens": 1, "limit_field": "n", "usd_per_million": {"input": 0, "output": 0,
           "cache_read": 0, "cache_write": 0}}}})",
      "max_completion_tokens");
  expect(
      R"({"format": 1, "models": {"m": {"provider": "openai", "base_url": "https://a:b@host/v1",
           "context_tokens": 1, "max_output_tokens": 1, "usd_per_million": {"input": 0, "output": 0,
           "cache_read": 0, "cache_write": 0}}}})",
      "base_url");
  // Whatever would hold a secret that messages show, or break the form of a request.
  const auto with = [](const std::string& url, const std::string& headers) {
    return R"({"format": 1, "models": {"m": {"provider": "openai", "base_url": ")" + url +
           R"(", "headers": )" + headers +
           R"(, "context_tokens": 1, "max_output_tokens": 1, "usd_per_million": {"input": 0,
               "output": 0, "cache_read": 0, "cache_write": 0}}}})";
  };
  expect(with("https://host/v1?api_key=sk-1", "[]"), "base_url");
  expect(with("https://host/v1#sk-1", "[]"), "base_url");
  expect(with("https://host/v1\\nx", "[]"), "base_url");
  expect(with("https://host", R"([["x-a", "b\r\nx-c: d"]])"), "headers");
  expect(with("https://host", R"([["x a", "b"]])"), "headers");
  EXPECT_TRUE(ParseModelCatalog(with("https://host/v1", R"([["x-a", "b c"]])")).ok());
  EXPECT_TRUE(absl::IsNotFound(LoadModelCatalog("/no/such/file").status()));
}

TEST(Secrets, AKeyIsOneLineWithoutSpaceAroundIt) {
  EXPECT_EQ(*UsableKey("m", "sk-1"), "sk-1");
  EXPECT_EQ(*UsableKey("m", " \tsk-1 2\r\n"), "sk-1 2");
  for (const char* bad : {"", " \n", "sk-1\nx-other: y", "sk\001-1", "sk-1\177"}) {
    const auto key = UsableKey("m", bad);
    EXPECT_TRUE(absl::IsInvalidArgument(key.status())) << bad;
    EXPECT_THAT(StatusText(key.status()), HasSubstr("model m"));
    EXPECT_THAT(StatusText(key.status()), ::testing::Not(HasSubstr("sk")));
  }
}

TEST(Cost, IsNeverAboveItsBoundNorBelowWhatIsSeen) {
  ModelSpec model;
  model.price = {.input = 4, .output = 20, .cache_read = 0.2, .cache_write = 5};
  const LlmRequest request = Request(std::string(10'000, 'x'));
  const TokenCost bound = UpperBound(model, request);
  EXPECT_GT(bound.tokens, 11'000);
  LlmReply reply;
  reply.text = std::string(3'200, 'y');
  reply.usage = {.input_tokens = 2'500, .output_tokens = 800, .reported = true};
  const TokenCost honest = CostOf(model, request, reply, bound);
  EXPECT_EQ(honest.tokens, 3'300);
  EXPECT_NEAR(honest.usd, 2'500e-6 * 4 + 800e-6 * 20, 1e-12);
  // A server that reports nothing, or less than there is to see.
  reply.usage = {};
  const TokenCost silent = CostOf(model, request, reply, bound);
  EXPECT_GE(silent.tokens, (10'000 + 3'200) / 16);
  reply.usage = {.input_tokens = 1, .output_tokens = -7, .reported = true};
  EXPECT_GE(CostOf(model, request, reply, bound).tokens, silent.tokens);
  // One that reports more than there can be.
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  reply.usage = {kHuge, kHuge, kHuge, kHuge, true};
  const TokenCost liar = CostOf(model, request, reply, bound);
  EXPECT_EQ(liar.tokens, bound.tokens);
  EXPECT_EQ(liar.usd, bound.usd);
  // In one count only, and just beyond what was reserved: charged what was reserved, in money too.
  for (std::int64_t LlmUsage::*count : {&LlmUsage::input_tokens, &LlmUsage::cache_read_tokens,
                                        &LlmUsage::cache_write_tokens, &LlmUsage::output_tokens}) {
    for (const std::int64_t much : {bound.tokens + 1, std::int64_t{1'000'000'000'000}, kHuge}) {
      reply.usage = {.input_tokens = 1, .output_tokens = 1, .reported = true};
      reply.usage.*count = much;
      const TokenCost one = CostOf(model, request, reply, bound);
      EXPECT_EQ(one.tokens, bound.tokens);
      EXPECT_EQ(one.usd, bound.usd);
    }
  }
}

TEST(Recording, TheBundledOnesHoldKernelsForKnownTargets) {
  int recordings = 0;
  for (const std::string_view name : AgentDataNames()) {
    if (!name.starts_with("recordings/")) continue;
    SCOPED_TRACE(name);
    ++recordings;
    const auto recording = ParseRecording(AgentData(name));
    ASSERT_TRUE(recording.ok()) << recording.status();
    EXPECT_TRUE(FindTarget(recording->target).ok()) << recording->target;
    EXPECT_FALSE(recording->proposals.empty());
    for (std::size_t i = 0; i < recording->proposals.size(); ++i) {
      EXPECT_TRUE(KernelSpecFromJson(recording->proposals[i].kernel).ok());
      EXPECT_LT(recording->proposals[i].parent, static_cast<int>(i));
    }
  }
  EXPECT_GE(recordings, 4);
}

TEST(Recording, RoundTripsAndMatchesByRequestThenLooselyThenInOrder) {
  Recording recording;
  recording.task = "t";
  recording.target = "cpu";
  recording.source = "a test";
  const auto call = [](const std::string& question, const std::string& answer) {
    RecordedCall out;
    out.role = "plan";
    out.key = RequestKey("plan", ToJson(Request(question)));
    out.loose = LooseKey("plan", ToJson(Request(question)));
    out.reply.text = answer;
    return out;
  };
  recording.calls = {call("first", "1"), call("took 12.5 us", "2"), call("third", "3")};
  RecordedProposal proposal;
  proposal.kernel = {{"source", "x"}};
  proposal.technique = "u";
  recording.proposals = {proposal};
  const auto again = ParseRecording(ToJson(recording).dump());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToJson(*again), ToJson(recording));
  ReplayClient client(again->calls, "plan");
  EXPECT_EQ(client.Complete(Request("third"), {})->text, "3");
  EXPECT_EQ(client.Complete(Request("took 99 us"), {})->text, "2");
  EXPECT_EQ(client.Complete(Request("something else"), {})->text, "1");
  EXPECT_TRUE(absl::IsNotFound(client.Complete(Request("first"), {}).status()));
  EXPECT_FALSE(ParseRecording("{}").ok());
  EXPECT_FALSE(ParseRecording(R"({"format":1,"task":"t","target":"c","source":"s",
      "proposals":[{"parent":0,"technique":"","rationale":"","kernel":{}}]})")
                   .ok());
}

}  // namespace
}  // namespace fettle
