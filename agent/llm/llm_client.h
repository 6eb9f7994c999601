// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

struct LlmToolCall {
  std::string id;
  std::string name;
  nlohmann::json input;   // Object; null where the model's JSON could not be parsed.
  std::string raw_input;  // As it came.
};

struct LlmToolResult {
  std::string id;  // Of the call that it answers.
  std::string text;
  bool is_error = false;
};

// One turn of the conversation. A user turn holds text or tool results, an assistant turn text or
// tool calls.
struct LlmMessage {
  enum class Role { kUser, kAssistant };
  Role role = Role::kUser;
  std::string text;
  std::vector<LlmToolCall> calls;
  std::vector<LlmToolResult> results;
  bool cache_mark = false;  // The prefix up to here may be cached by the provider.
  nlohmann::json raw;       // Assistant turns: LlmReply::raw of the reply, echoed unchanged.
};

struct LlmTool {
  std::string name;
  std::string description;
  nlohmann::json schema;  // JSON Schema of the input, an object.
};

struct LlmRequest {
  std::string model;
  std::string system;  // Marked for caching where the provider can.
  std::vector<LlmMessage> messages;
  std::vector<LlmTool> tools;
  bool require_tool = false;  // Some tool has to be called.
  std::int64_t max_output_tokens = 8192;
  std::optional<double> temperature;
};

struct LlmUsage {
  std::int64_t input_tokens = 0;  // Not counting the cached ones.
  std::int64_t cache_read_tokens = 0;
  std::int64_t cache_write_tokens = 0;
  std::int64_t output_tokens = 0;
  bool reported = false;  // The provider said so; else all zero.
};

struct LlmReply {
  enum class Stop { kEnd, kToolUse, kMaxTokens, kRefusal, kOther };
  std::string text;
  std::vector<LlmToolCall> calls;
  Stop stop = Stop::kEnd;
  LlmUsage usage;
  std::string model;       // As the provider names it.
  std::string request_id;  // Of the provider, for its support.
  // The turn as the provider wants it back in the next request, where that is more than text and
  // calls (reasoning blocks with their signatures); else null.
  nlohmann::json raw;
};

// A language model behind HTTP. Thread-safe.
//
// Errors of Complete:
//   kUnauthenticated     401, 403: the key is missing or wrong
//   kNotFound            404: no such model
//   kResourceExhausted   429: too many requests, or no credit left
//   kUnavailable         5xx, 529, or the connection failed
//   kDeadlineExceeded    a limit passed
//   kCancelled           `stop` was requested
//   kFailedPrecondition  the server's certificate is not to be trusted
//   kInvalidArgument     400, 413, 422, or 200 with no answer: repeating it is useless
//   kOutOfRange          the answer is longer than kMaxAnswerBytes, all its fields together
//   kDataLoss            the stream ended before the answer did, or is not the protocol
//
// kResourceExhausted and kUnavailable may carry a wait in RetryAfter(status). No message and no
// answer holds a key.
class LlmClient {
 public:
  virtual ~LlmClient() = default;
  virtual std::string_view provider() const = 0;  // "anthropic", "openai"
  virtual absl::StatusOr<LlmReply> Complete(const LlmRequest& request, std::stop_token stop) = 0;
};

inline constexpr std::size_t kMaxAnswerBytes = 1 << 20;

// How to reach a model.
struct LlmEndpoint {
  std::string provider;  // "anthropic" or "openai" (every OpenAI-compatible server).
  std::string base_url;  // Without the path: "https://host" or "http://127.0.0.1:8000".
  std::string api_key;   // May be empty for local servers.
  std::vector<std::pair<std::string, std::string>> headers;  // In addition.
  std::string ca_file;
  // openai: what the longest answer is called. OpenAI's reasoning models refuse "max_tokens" and
  // want "max_completion_tokens"; other servers know the former only.
  std::string limit_field = "max_tokens";
  std::chrono::milliseconds connect_limit{10000};
  std::chrono::milliseconds total_limit{600000};
  std::chrono::milliseconds idle_limit{90000};
};

class HttpClient;
// `http` must outlive the client. kInvalidArgument: unknown provider, or no base_url.
absl::StatusOr<std::unique_ptr<LlmClient>> MakeLlmClient(LlmEndpoint endpoint, HttpClient& http);

// The wait that the server asked for, if any (payload on the status).
std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status);
absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds wait);

// Whether the call surely cost nothing: the provider answered with an HTTP error instead of a
// stream, or could not be reached at all. An answer that broke off may have been billed.
bool IsUnbilled(const absl::Status& status);
absl::Status AsUnbilled(absl::Status status);

// JSON forms, for the journal and replay. Keys and headers are no part of them.
nlohmann::json ToJson(const LlmRequest& request);
nlohmann::json ToJson(const LlmReply& reply);
absl::StatusOr<LlmReply> LlmReplyFromJson(const nlohmann::json& json);

}  // namespace fettle
