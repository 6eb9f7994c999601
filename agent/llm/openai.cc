// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <fmt/format.h>

#include "agent/llm/provider.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

// Tool results are messages of their own here, so one of our turns can become several.
void AppendMessages(const LlmMessage& message, json& out) {
  for (const LlmToolResult& result : message.results) {
    out.push_back({{"role", "tool"}, {"tool_call_id", result.id}, {"content", result.text}});
  }
  if (message.role == LlmMessage::Role::kUser) {
    if (!message.text.empty() || message.results.empty()) {
      out.push_back({{"role", "user"}, {"content", message.text}});
    }
    return;
  }
  json turn = {{"role", "assistant"}, {"content", message.text}};
  for (const LlmToolCall& call : message.calls) {
    const std::string arguments =
        call.input.is_object() ? call.input.dump(-1, ' ', false, kReplaceInvalid) : "{}";
    turn["tool_calls"].push_back({{"id", call.id},
                                  {"type", "function"},
                                  {"function", {{"name", call.name}, {"arguments", arguments}}}});
  }
  out.push_back(std::move(turn));
}

class OpenAiDecoder final : public ReplyDecoder {
 public:
  absl::Status Feed(const SseEvent& event) override {
    if (event.data == "[DONE]") {
      complete_ = true;
      return absl::OkStatus();
    }
    FETTLE_ASSIGN_OR_RETURN(const json data, ParseEventData(event.data));
    if (const auto error = data.find("error"); error != data.end() && !error->is_null()) {
      return StreamError(*error);
    }
    ReadLabels(data);
    ReadUsage(data);
    const auto choices = data.find("choices");
    if (choices == data.end() || !choices->is_array() || choices->empty()) return absl::OkStatus();
    return AddChoice(choices->front());
  }

  absl::Status FeedWhole(const json& document) override {
    if (const auto error = document.find("error"); error != document.end() && !error->is_null()) {
      return AsUnbilled(StreamError(*error));
    }
    const auto choices = document.find("choices");
    const bool any = choices != document.end() && choices->is_array() && !choices->empty() &&
                     choices->front().is_object();
    json delta = any ? choices->front().value("message", json()) : json();
    if (!delta.is_object()) return absl::InvalidArgumentError("no choices");
    if (const auto calls = delta.find("tool_calls"); calls != delta.end() && calls->is_array()) {
      for (std::size_t i = 0; i < calls->size(); ++i) {
        if ((*calls)[i].is_object()) (*calls)[i]["index"] = i;
      }
    }
    ReadLabels(document);
    ReadUsage(document);
    complete_ = true;
    return AddChoice({{"delta", std::move(delta)},
                      {"finish_reason", TextAt(choices->front(), "finish_reason")}});
  }
  bool done() const override { return complete_; }
  bool complete() const override { return complete_ || finished_; }

  absl::StatusOr<LlmReply> Finish() override {
    // Some servers leave out [DONE]; a finish reason is as good.
    if (!complete_ && !finished_) {
      return absl::DataLossError("read the model's stream: it ended before the answer did");
    }
    for (auto& [index, call] : calls_) {
      if (call.id.empty()) call.id = fmt::format("call_{}", index);
      reply_.calls.push_back(MakeToolCall(call.id, call.name, std::move(call.arguments)));
    }
    if (!reply_.calls.empty() && reply_.stop == LlmReply::Stop::kEnd) {
      reply_.stop = LlmReply::Stop::kToolUse;
    }
    return std::move(reply_);
  }

 private:
  struct Call {
    std::string id, name, arguments;
  };

  static absl::Status StreamError(const json& error) {
    const std::string text =
        error.is_object() ? TextAt(error, "message") : error.dump(-1, ' ', false, kReplaceInvalid);
    return absl::UnavailableError(fmt::format("model stream: {}", CutText(text, kMaxStreamError)));
  }

  void ReadLabels(const json& data) {
    if (reply_.model.empty()) reply_.model = CutText(TextAt(data, "model"), kMaxLabelBytes);
    if (reply_.request_id.empty()) reply_.request_id = CutText(TextAt(data, "id"), kMaxLabelBytes);
  }

  void ReadUsage(const json& data) {
    const auto usage = data.find("usage");
    if (usage == data.end() || !usage->is_object()) return;
    LlmUsage& u = reply_.usage;
    u.reported = true;
    const json details = usage->value("prompt_tokens_details", json::object());
    u.cache_read_tokens = details.is_object() ? CountAt(details, "cached_tokens") : 0;
    u.input_tokens =
        std::max<std::int64_t>(0, CountAt(*usage, "prompt_tokens") - u.cache_read_tokens);
    u.output_tokens = CountAt(*usage, "completion_tokens");
  }

  absl::Status AddChoice(const json& choice) {
    if (!choice.is_object()) return absl::OkStatus();
    if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
      FETTLE_RETURN_IF_ERROR(AddDelta(*delta));
    }
    const std::string reason = TextAt(choice, "finish_reason");
    if (reason.empty()) return absl::OkStatus();
    finished_ = true;
    if (reason == "tool_calls" || reason == "function_call")
      reply_.stop = LlmReply::Stop::kToolUse;
    else if (reason == "length")
      reply_.stop = LlmReply::Stop::kMaxTokens;
    else if (reason == "content_filter")
      reply_.stop = LlmReply::Stop::kRefusal;
    else if (reason != "stop")
      reply_.stop = LlmReply::Stop::kOther;
    return absl::OkStatus();
  }

  absl::Status AddDelta(const json& delta) {
    const std::string text = TextAt(delta, "content");
    const std::string refusal = TextAt(delta, "refusal");
    if (!refusal.empty()) reply_.stop = LlmReply::Stop::kRefusal;
    FETTLE_RETURN_IF_ERROR(size_.Add(text.size() + refusal.size()));
    reply_.text += text + refusal;
    const auto calls = delta.find("tool_calls");
    if (calls != delta.end() && calls->is_array()) {
      for (const json& piece : *calls) {
        if (!piece.is_object()) continue;
        FETTLE_RETURN_IF_ERROR(AddCall(piece));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddCall(const json& piece) {
    const auto [found, added] = calls_.try_emplace(CountAt(piece, "index"));
    Call& call = found->second;
    const std::string id = call.id.empty() ? TextAt(piece, "id") : "";
    std::string name, arguments;
    if (const auto function = piece.find("function");
        function != piece.end() && function->is_object()) {
      name = TextAt(*function, "name");
      arguments = TextAt(*function, "arguments");
    }
    FETTLE_RETURN_IF_ERROR(size_.Add((added ? AnswerSize::kItemBytes : 0) + id.size() +
                                     name.size() + arguments.size()));
    call.id += id;
    call.name += name;
    call.arguments += arguments;
    return absl::OkStatus();
  }

  LlmReply reply_;
  std::map<std::int64_t, Call> calls_;
  AnswerSize size_;
  bool complete_ = false, finished_ = false;
};

class OpenAi final : public Provider {
 public:
  explicit OpenAi(std::string limit_field) : limit_field_(std::move(limit_field)) {}
  std::string_view name() const override { return "openai"; }
  std::string path() const override { return "/v1/chat/completions"; }
  std::vector<std::pair<std::string, std::string>> Headers(const std::string& key) const override {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"content-type", "application/json"}};
    if (!key.empty()) headers.emplace_back("authorization", "Bearer " + key);
    return headers;
  }
  json Body(const LlmRequest& request) const override {
    json body = {{"model", request.model},
                 {limit_field_, request.max_output_tokens},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"messages", json::array()}};
    if (!request.system.empty()) {
      body["messages"].push_back({{"role", "system"}, {"content", request.system}});
    }
    for (const LlmMessage& message : request.messages) AppendMessages(message, body["messages"]);
    for (const LlmTool& tool : request.tools) {
      body["tools"].push_back({{"type", "function"},
                               {"function",
                                {{"name", tool.name},
                                 {"description", tool.description},
                                 {"parameters", tool.schema}}}});
    }
    if (request.require_tool) body["tool_choice"] = "required";
    if (request.temperature) body["temperature"] = *request.temperature;
    return body;
  }
  std::unique_ptr<ReplyDecoder> NewDecoder() const override {
    return std::make_unique<OpenAiDecoder>();
  }

 private:
  const std::string limit_field_;
};

}  // namespace

std::unique_ptr<Provider> OpenAiProvider(std::string limit_field) {
  return std::make_unique<OpenAi>(std::move(limit_field));
}

}  // namespace fettle
