// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "agent/llm/llm_client.h"
#include "agent/llm/sse_parser.h"

namespace fettle {

// Builds one answer from a provider's stream of events. Used from one thread.
class ReplyDecoder {
 public:
  virtual ~ReplyDecoder() = default;
  // kDataLoss: not the protocol; kUnavailable, kResourceExhausted, kInvalidArgument: an error that
  // the provider reports inside the stream; kOutOfRange: longer than kMaxAnswerBytes.
  virtual absl::Status Feed(const SseEvent& event) = 0;
  // The one document of a server that does not stream. As Feed; kInvalidArgument: no answer.
  virtual absl::Status FeedWhole(const nlohmann::json& document) = 0;
  // The last event of the stream has come.
  virtual bool done() const = 0;
  // Finish has an answer to give, if perhaps without its usage.
  virtual bool complete() const = 0;
  // The whole answer. kDataLoss: the stream ended before the answer did.
  virtual absl::StatusOr<LlmReply> Finish() = 0;
};

// What a decoder keeps of an answer, wherever it puts it: every text and name, and kItemBytes for
// each block or call.
class AnswerSize {
 public:
  static constexpr std::size_t kItemBytes = 256;
  // kOutOfRange: more than kMaxAnswerBytes.
  absl::Status Add(std::size_t bytes);

 private:
  std::size_t bytes_ = 0;
};

// The wire form of one provider: pure functions, no I/O.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  virtual std::string path() const = 0;
  virtual std::vector<std::pair<std::string, std::string>> Headers(
      const std::string& key) const = 0;
  virtual nlohmann::json Body(const LlmRequest& request) const = 0;
  virtual std::unique_ptr<ReplyDecoder> NewDecoder() const = 0;
};

std::unique_ptr<Provider> AnthropicProvider();  // Messages API, version 2023-06-01.
// Chat Completions. `limit_field`: LlmEndpoint::limit_field.
std::unique_ptr<Provider> OpenAiProvider(std::string limit_field);

inline constexpr std::size_t kMaxStreamError = 600;  // Of an error's text inside a stream.
inline constexpr std::size_t kMaxLabelBytes = 200;   // Of what a provider calls model and answer.

// Parses a tool call's arguments; null input where they are no JSON object.
LlmToolCall MakeToolCall(std::string id, std::string name, std::string raw);
// Parses an event's data, repairing UTF-8; kDataLoss unless it is a JSON object.
absl::StatusOr<nlohmann::json> ParseEventData(const std::string& data);
// Lenient reads of model-made JSON: the fallback where the key is missing or of another type.
// Negative becomes 0, and what is beyond 1e15 becomes that: absurd, but not nothing.
std::int64_t CountAt(const nlohmann::json& object, const char* key);

}  // namespace fettle
