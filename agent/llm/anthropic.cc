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

json CacheMark() { return {{"type", "ephemeral"}}; }

json MessageBody(const LlmMessage& message) {
  if (message.role == LlmMessage::Role::kAssistant && message.raw.is_array()) {
    return {{"role", "assistant"}, {"content", message.raw}};
  }
  json content = json::array();
  for (const LlmToolResult& result : message.results) {
    content.push_back({{"type", "tool_result"},
                       {"tool_use_id", result.id},
                       {"content", result.text},
                       {"is_error", result.is_error}});
  }
  if (!message.text.empty()) content.push_back({{"type", "text"}, {"text", message.text}});
  for (const LlmToolCall& call : message.calls) {
    content.push_back({{"type", "tool_use"},
                       {"id", call.id},
                       {"name", call.name},
                       {"input", call.input.is_object() ? call.input : json::object()}});
  }
  if (message.cache_mark && !content.empty()) content.back()["cache_control"] = CacheMark();
  return {{"role", message.role == LlmMessage::Role::kUser ? "user" : "assistant"},
          {"content", std::move(content)}};
}

absl::Status StreamError(const json& event) {
  const json error = event.value("error", json::object());
  const std::string type = error.is_object() ? TextAt(error, "type") : "";
  const std::string text =
      fmt::format("model stream: {}: {}", type.empty() ? "error" : type,
                  error.is_object() ? CutText(TextAt(error, "message"), kMaxStreamError) : "");
  if (type == "rate_limit_error") return absl::ResourceExhaustedError(text);
  if (type == "invalid_request_error") return absl::InvalidArgumentError(text);
  if (type == "authentication_error" || type == "permission_error") {
    return absl::UnauthenticatedError(text);
  }
  return absl::UnavailableError(text);  // overloaded_error, api_error, unknown ones.
}

class AnthropicDecoder final : public ReplyDecoder {
 public:
  absl::Status Feed(const SseEvent& event) override {
    FETTLE_ASSIGN_OR_RETURN(const json data, ParseEventData(event.data));
    const std::string type = TextAt(data, "type");
    if (type == "error") return StreamError(data);
    if (type == "message_start") return Start(data.value("message", json::object()));
    if (type == "content_block_start") return StartBlock(data);
    if (type == "content_block_delta") return AddDelta(data);
    if (type == "message_delta") return EndMessage(data);
    if (type == "message_stop") complete_ = true;
    return absl::OkStatus();  // ping, content_block_stop and what later versions add.
  }

  absl::Status FeedWhole(const json& document) override {
    if (TextAt(document, "type") == "error") return AsUnbilled(StreamError(document));
    const auto content = document.find("content");
    if (content == document.end() || !content->is_array()) {
      return absl::InvalidArgumentError("no content");
    }
    FETTLE_RETURN_IF_ERROR(Start(document));
    for (std::size_t i = 0; i < content->size(); ++i) {
      const json& block = (*content)[i];
      FETTLE_RETURN_IF_ERROR(StartBlock({{"index", i}, {"content_block", block}}));
      if (TextAt(block, "type") != "tool_use") continue;
      blocks_[static_cast<std::int64_t>(i)].text =
          block.value("input", json::object()).dump(-1, ' ', false, kReplaceInvalid);
    }
    complete_ = true;
    return EndMessage({{"delta", {{"stop_reason", TextAt(document, "stop_reason")}}}});
  }
  bool done() const override { return complete_; }
  bool complete() const override { return complete_; }

  absl::StatusOr<LlmReply> Finish() override {
    if (!complete_) {
      return absl::DataLossError("read the model's stream: it ended before the answer did");
    }
    json raw = json::array();
    bool has_reasoning = false;
    for (auto& [index, block] : blocks_) {
      if (block.type == "tool_use") {
        reply_.calls.push_back(MakeToolCall(TextAt(block.start, "id"), TextAt(block.start, "name"),
                                            std::move(block.text)));
        const json& input = reply_.calls.back().input;
        block.start["input"] = input.is_object() ? input : json::object();
      } else if (block.type == "text") {
        reply_.text += block.text;
        if (block.text.empty()) continue;  // The provider refuses empty text.
        block.start["text"] = block.text;
      } else {
        has_reasoning = true;
        if (block.type == "thinking") block.start["thinking"] = block.text;
        if (!block.signature.empty()) block.start["signature"] = block.signature;
      }
      raw.push_back(std::move(block.start));
    }
    if (has_reasoning) reply_.raw = std::move(raw);
    return std::move(reply_);
  }

 private:
  struct Block {
    std::string type = "text";
    json start = {{"type", "text"}};  // As announced; its text and input are filled in at the end.
    std::string text, signature;
  };

  absl::Status Start(const json& message) {
    if (!message.is_object()) return absl::OkStatus();
    reply_.model = CutText(TextAt(message, "model"), kMaxLabelBytes);
    reply_.request_id = CutText(TextAt(message, "id"), kMaxLabelBytes);
    ReadUsage(message);
    return absl::OkStatus();
  }

  void ReadUsage(const json& holder) {
    const auto usage = holder.find("usage");
    if (usage == holder.end() || !usage->is_object()) return;
    LlmUsage& u = reply_.usage;
    u.reported = true;
    const auto raise = [&](std::int64_t& field, const char* key) {
      field = std::max(field, CountAt(*usage, key));
    };
    raise(u.input_tokens, "input_tokens");
    raise(u.cache_read_tokens, "cache_read_input_tokens");
    raise(u.cache_write_tokens, "cache_creation_input_tokens");
    raise(u.output_tokens, "output_tokens");
  }

  absl::Status StartBlock(const json& data) {
    const auto content = data.find("content_block");
    if (content == data.end() || !content->is_object()) return absl::OkStatus();
    FETTLE_RETURN_IF_ERROR(size_.Add(content->dump(-1, ' ', false, kReplaceInvalid).size()));
    FETTLE_ASSIGN_OR_RETURN(Block* const block, BlockOf(data));
    block->type = TextAt(*content, "type");
    block->start = *content;
    block->text = TextAt(*content, block->type == "thinking" ? "thinking" : "text");
    return absl::OkStatus();
  }

  absl::StatusOr<Block*> BlockOf(const json& data) {
    const auto [found, added] = blocks_.try_emplace(CountAt(data, "index"));
    if (added) FETTLE_RETURN_IF_ERROR(size_.Add(AnswerSize::kItemBytes));
    return &found->second;
  }

  absl::Status AddDelta(const json& data) {
    const auto delta = data.find("delta");
    if (delta == data.end() || !delta->is_object()) return absl::OkStatus();
    const std::string type = TextAt(*delta, "type");
    std::string piece, signature;
    if (type == "text_delta") piece = TextAt(*delta, "text");
    if (type == "input_json_delta") piece = TextAt(*delta, "partial_json");
    if (type == "thinking_delta") piece = TextAt(*delta, "thinking");
    if (type == "signature_delta") signature = TextAt(*delta, "signature");
    FETTLE_RETURN_IF_ERROR(size_.Add(piece.size() + signature.size()));
    FETTLE_ASSIGN_OR_RETURN(Block* const block, BlockOf(data));
    block->text += piece;
    block->signature += signature;
    return absl::OkStatus();
  }

  absl::Status EndMessage(const json& data) {
    ReadUsage(data);
    const auto delta = data.find("delta");
    const std::string reason =
        delta != data.end() && delta->is_object() ? TextAt(*delta, "stop_reason") : "";
    if (reason == "tool_use")
      reply_.stop = LlmReply::Stop::kToolUse;
    else if (reason == "max_tokens")
      reply_.stop = LlmReply::Stop::kMaxTokens;
    else if (reason == "refusal")
      reply_.stop = LlmReply::Stop::kRefusal;
    else if (reason == "end_turn" || reason == "stop_sequence")
      reply_.stop = LlmReply::Stop::kEnd;
    else if (!reason.empty())
      reply_.stop = LlmReply::Stop::kOther;
    return absl::OkStatus();
  }

  LlmReply reply_;
  std::map<std::int64_t, Block> blocks_;
  AnswerSize size_;
  bool complete_ = false;
};

class Anthropic final : public Provider {
 public:
  std::string_view name() const override { return "anthropic"; }
  std::string path() const override { return "/v1/messages"; }
  std::vector<std::pair<std::string, std::string>> Headers(const std::string& key) const override {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"content-type", "application/json"}, {"anthropic-version", "2023-06-01"}};
    if (!key.empty()) headers.emplace_back("x-api-key", key);
    return headers;
  }
  json Body(const LlmRequest& request) const override {
    json body = {{"model", request.model},
                 {"max_tokens", request.max_output_tokens},
                 {"stream", true},
                 {"messages", json::array()}};
    if (!request.system.empty()) {
      body["system"] = json::array(
          {{{"type", "text"}, {"text", request.system}, {"cache_control", CacheMark()}}});
    }
    for (const LlmMessage& message : request.messages) {
      body["messages"].push_back(MessageBody(message));
    }
    for (const LlmTool& tool : request.tools) {
      body["tools"].push_back(
          {{"name", tool.name}, {"description", tool.description}, {"input_schema", tool.schema}});
    }
    if (request.require_tool) body["tool_choice"] = {{"type", "any"}};
    if (request.temperature) body["temperature"] = *request.temperature;
    return body;
  }
  std::unique_ptr<ReplyDecoder> NewDecoder() const override {
    return std::make_unique<AnthropicDecoder>();
  }
};

}  // namespace

std::unique_ptr<Provider> AnthropicProvider() { return std::make_unique<Anthropic>(); }

}  // namespace fettle
