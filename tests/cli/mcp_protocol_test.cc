// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_protocol.h"

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using nlohmann::json;

class FakeTools final : public McpTools {
 public:
  json List() const override {
    return json::array({{{"name", "echo"}, {"inputSchema", {{"type", "object"}}}}});
  }
  bool Has(std::string_view name) const override { return name == "echo" || name == "hold"; }
  std::string instructions() const override { return "be brief"; }
  McpToolResult Call(const std::string& name, const json& arguments, const Progress& progress,
                     std::stop_token stop) override {
    if (name == "echo") {
      progress("half");
      return {{{"said", arguments}}, arguments.contains("bad")};
    }
    held.count_down();
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait(lock, stop, [] { return false; });
    return {{{"said", "too late"}}, false};
  }
  std::latch held{1};
};

class McpProtocol : public ::testing::Test {
 protected:
  static json Meta(const std::string& version = "2026-07-28") {
    return {{"io.modelcontextprotocol/protocolVersion", version},
            {"io.modelcontextprotocol/clientCapabilities", json::object()}};
  }
  void Send(const json& message) { session_.Handle(message.dump()); }
  void Request(int id, const std::string& method, json params) {
    Send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}});
  }
  // What came so far, calls included.
  std::vector<json> Answers() {
    session_.Drain();
    const std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }
  json Answer() {
    const std::vector<json> answers = Answers();
    EXPECT_EQ(answers.size(), 1U);
    return answers.empty() ? json() : answers.back();
  }

  FakeTools tools_;
  std::mutex mutex_;
  std::vector<json> sent_;
  McpSession session_{tools_, {.version = "1.2"}, [this](std::string text) {
                        EXPECT_EQ(text.find('\n'), std::string::npos);
                        const std::lock_guard lock(mutex_);
                        sent_.push_back(json::parse(text));
                      }};
};

TEST_F(McpProtocol, WaitsSoLongForWhatIsUnderWay) {
  EXPECT_TRUE(session_.DrainFor(std::chrono::milliseconds(0)));
  Request(1, "tools/call", {{"name", "hold"}, {"_meta", Meta()}});
  tools_.held.wait();
  EXPECT_FALSE(session_.DrainFor(std::chrono::milliseconds(1)));
  Send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  EXPECT_TRUE(session_.DrainFor(std::chrono::minutes(1)));
}

TEST_F(McpProtocol, TheCurrentRevisionNeedsNoHandshake) {
  Request(1, "server/discover", {{"_meta", Meta()}});
  json answer = Answer();
  EXPECT_EQ(answer["result"]["supportedVersions"], (json{"2026-07-28", "2025-11-25"}));
  EXPECT_EQ(answer["result"]["resultType"], "complete");
  EXPECT_EQ(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["version"], "1.2");
  Request(2, "tools/list", {{"_meta", Meta()}});
  answer = Answer();
  EXPECT_EQ(answer["result"]["tools"][0]["name"], "echo");
  EXPECT_TRUE(answer["result"]["ttlMs"].is_number());
  json meta = Meta();
  meta["progressToken"] = "p";
  Request(3, "tools/call", {{"_meta", meta}, {"name", "echo"}, {"arguments", {{"a", 1}}}});
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0]["method"], "notifications/progress");
  EXPECT_EQ(answers[0]["params"]["progressToken"], "p");
  EXPECT_EQ(answers[1]["result"]["structuredContent"]["said"]["a"], 1);
  EXPECT_EQ(json::parse(answers[1]["result"]["content"][0]["text"].get<std::string>()),
            answers[1]["result"]["structuredContent"]);
  EXPECT_EQ(answers[1]["result"]["isError"], false);
}

TEST_F(McpProtocol, TheRevisionBeforeBeginsWithInitialize) {
  Request(1, "initialize",
          {{"protocolVersion", "2025-11-25"},
           {"capabilities", json::object()},
           {"clientInfo", {{"name", "t"}, {"version", "0"}}}});
  json answer = Answer();
  EXPECT_EQ(answer["result"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(answer["result"]["serverInfo"]["name"], "fettle");
  EXPECT_FALSE(answer["result"].contains("resultType"));
  Send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  EXPECT_TRUE(Answers().empty());
  Request(2, "ping", json::object());
  EXPECT_TRUE(Answer()["result"].is_object());
  Request(3, "tools/call", {{"name", "echo"}, {"arguments", {{"bad", true}}}});
  EXPECT_EQ(Answer()["result"]["isError"], true);
  // Another version is answered with the one that is spoken here.
  Request(4, "initialize", {{"protocolVersion", "1999-01-01"}});
  EXPECT_EQ(Answer()["result"]["protocolVersion"], "2025-11-25");
}

TEST_F(McpProtocol, RefusesWhatIsNoRequest) {
  const auto code = [&] { return Answer()["error"]["code"].get<int>(); };
  session_.Handle("{");
  EXPECT_EQ(code(), -32700);
  session_.Handle("[]");
  EXPECT_EQ(code(), -32600);
  session_.Handle("\xff\xfe");
  EXPECT_EQ(code(), -32700);
  session_.Handle(R"({"jsonrpc":"1.0","id":1,"method":"x"})");
  EXPECT_EQ(code(), -32600);
  session_.Handle(R"({"jsonrpc":"2.0","id":null,"method":"x"})");
  EXPECT_EQ(code(), -32600);
  session_.Handle(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]})");
  EXPECT_EQ(code(), -32602);
  session_.Handle("   ");
  EXPECT_TRUE(Answers().empty());
  Request(1, "tools/list", json::object());  // Neither revision's way to begin.
  EXPECT_EQ(code(), -32602);
  Request(1, "tools/list", {{"_meta", Meta("1900-01-01")}});
  const json version = Answer();
  EXPECT_EQ(version["error"]["code"], -32022);
  EXPECT_EQ(version["error"]["data"]["requested"], "1900-01-01");
  EXPECT_EQ(version["error"]["data"]["supported"][0], "2026-07-28");
  Request(1, "no/such", {{"_meta", Meta()}});
  EXPECT_EQ(code(), -32601);
  Request(1, "tools/call", {{"_meta", Meta()}, {"name", "nothing"}});
  EXPECT_EQ(code(), -32602);
  Request(1, "tools/call", {{"_meta", Meta()}, {"name", 7}});
  EXPECT_EQ(code(), -32602);
  json meta = Meta();
  meta.erase("io.modelcontextprotocol/clientCapabilities");
  Request(1, "tools/list", {{"_meta", meta}});
  EXPECT_EQ(code(), -32602);
}

TEST_F(McpProtocol, NestingWithoutEndIsNoRequest) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string meta = Meta().dump();
  for (const std::string& line :
       {deep, R"({"jsonrpc":"2.0","id":)" + deep + R"(,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":)" + meta +
            R"(,"cursor":)" + deep + "}}",
        R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":)" + meta +
            R"(,"name":"echo","arguments":{"a":)" + deep + "}}}",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" + deep +
            "}}"}) {
    session_.Handle(line);
    const json answer = Answer();
    EXPECT_EQ(answer["error"]["code"], -32700);
    EXPECT_NE(answer["error"]["message"].get<std::string>().find("nested"), std::string::npos);
  }
  Request(2, "tools/call", {{"_meta", Meta()}, {"name", "echo"}, {"arguments", {{"a", 1}}}});
  EXPECT_EQ(Answer()["result"]["isError"], false);
}

TEST_F(McpProtocol, ACancelledCallIsNotAnswered) {
  Request(1, "tools/call", {{"_meta", Meta()}, {"name", "hold"}});
  tools_.held.wait();
  Request(1, "tools/call", {{"_meta", Meta()}, {"name", "echo"}});  // The id is taken.
  Send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  Send(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 99}}}});
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0]["error"]["code"], -32600);
}

}  // namespace
}  // namespace fettle
