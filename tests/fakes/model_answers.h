// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/fakes/fake_http_server.h"

namespace fettle {

// What a model's server sends, in the form of either provider.
struct ModelAnswers {
  bool anthropic = true;

  static std::string Event(const nlohmann::json& data) { return "data: " + data.dump() + "\n\n"; }

  // A whole event stream with one tool call; `arguments` is sent as it is, so that it may be cut.
  std::string CallText(const std::string& name, const std::string& arguments,
                       std::int64_t input_tokens = 1'000, std::int64_t output_tokens = 200,
                       const std::string& stop = "") const {
    if (anthropic) {
      return Event(
                 {{"type", "message_start"},
                  {"message",
                   {{"id", "m1"}, {"model", "m"}, {"usage", {{"input_tokens", input_tokens}}}}}}) +
             Event({{"type", "content_block_start"},
                    {"index", 0},
                    {"content_block", {{"type", "tool_use"}, {"id", "t1"}, {"name", name}}}}) +
             Event({{"type", "content_block_delta"},
                    {"index", 0},
                    {"delta", {{"type", "input_json_delta"}, {"partial_json", arguments}}}}) +
             Event({{"type", "message_delta"},
                    {"delta", {{"stop_reason", stop.empty() ? "tool_use" : stop}}},
                    {"usage", {{"output_tokens", output_tokens}}}}) +
             Event({{"type", "message_stop"}});
    }
    return Event({{"id", "c1"},
                  {"model", "m"},
                  {"choices",
                   {{{"delta",
                      {{"tool_calls",
                        {{{"index", 0},
                          {"id", "t1"},
                          {"function", {{"name", name}, {"arguments", arguments}}}}}}}}}}}}) +
           Event({{"choices",
                   {{{"delta", nlohmann::json::object()},
                     {"finish_reason", stop.empty() ? "tool_calls" : "length"}}}}}) +
           Event({{"choices", nlohmann::json::array()},
                  {"usage",
                   {{"prompt_tokens", input_tokens}, {"completion_tokens", output_tokens}}}}) +
           "data: [DONE]\n\n";
  }
  std::string TextOnly(const std::string& text, const std::string& stop = "") const {
    if (anthropic) {
      return Event({{"type", "message_start"}, {"message", {{"id", "m1"}, {"model", "m"}}}}) +
             (text.empty() ? ""
                           : Event({{"type", "content_block_delta"},
                                    {"index", 0},
                                    {"delta", {{"type", "text_delta"}, {"text", text}}}})) +
             Event({{"type", "message_delta"},
                    {"delta", {{"stop_reason", stop.empty() ? "end_turn" : stop}}},
                    {"usage", {{"output_tokens", 20}}}}) +
             Event({{"type", "message_stop"}});
    }
    nlohmann::json delta = nlohmann::json::object();
    if (!text.empty()) delta["content"] = text;
    return Event({{"choices", {{{"delta", delta}}}}}) +
           Event({{"choices",
                   {{{"delta", nlohmann::json::object()},
                     {"finish_reason", stop.empty() ? "stop" : "content_filter"}}}}}) +
           "data: [DONE]\n\n";
  }
  FakeHttpServer::Answer Stream(const std::string& text) const { return {{StreamHead() + text}}; }
  FakeHttpServer::Answer Call(const std::string& name, const nlohmann::json& arguments) const {
    return Stream(CallText(name, arguments.dump()));
  }
  FakeHttpServer::Answer Plan(const std::string& technique) const {
    return Call(
        "plan",
        {{"bottleneck", "memory"}, {"technique", technique}, {"change", "do " + technique}});
  }

  // Whether the request asks for a plan (else for writing).
  static bool AsksForPlan(const std::string& request) {
    return request.find("Choose the next change") != std::string::npos;
  }
};

}  // namespace fettle
