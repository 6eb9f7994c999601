// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/llm_client.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include <absl/strings/cord.h>
#include <absl/strings/string_view.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include "agent/llm/http_client.h"
#include "agent/llm/provider.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr char kUnbilledUrl[] = "fettle.dev/unbilled";
constexpr char kRetryAfterUrl[] = "fettle.dev/retry-after-ms";
constexpr std::size_t kMaxErrorBody = 16 << 10;
constexpr std::size_t kMaxErrorText = 300;
constexpr std::int64_t kMaxRetryAfterSeconds = 3600;

// Values of headers that the provider may see and nobody else: the key, and what is sent beside it.
using Secrets = std::vector<std::string>;

// Some servers repeat the key that they refuse. Shorter ones are words, not secrets.
std::string WithoutSecrets(std::string text, const Secrets& secrets) {
  constexpr std::size_t kShortestSecret = 8;
  constexpr std::string_view kInstead = "(the key)";
  for (const std::string& secret : secrets) {
    if (secret.size() < kShortestSecret) continue;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kInstead.size())) {
      text.replace(at, secret.size(), kInstead);
    }
  }
  return text;
}

absl::Status WithoutSecrets(const absl::Status& status, const Secrets& secrets) {
  const std::string text(status.message());
  std::string clean = WithoutSecrets(text, secrets);
  if (clean == text) return status;
  absl::Status cleaned(status.code(), clean);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { cleaned.SetPayload(url, payload); });
  return cleaned;
}

// What the provider's error body says, without echoing whole pages.
std::string ErrorText(const std::string& body, const Secrets& secrets) {
  const json parsed = ParseJson(RepairUtf8(body));
  std::string text;
  if (parsed.is_object()) {
    const auto error = parsed.find("error");
    if (error != parsed.end() && error->is_object())
      text = TextAt(*error, "message");
    else if (error != parsed.end() && error->is_string())
      text = error->get<std::string>();
    if (text.empty()) text = TextAt(parsed, "message");
  }
  if (text.empty()) text = RepairUtf8(body);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return CutText(WithoutSecrets(std::move(text), secrets), kMaxErrorText);
}

std::optional<std::chrono::milliseconds> ParseRetryAfter(const HttpPosted& response) {
  const auto header = response.headers.find("retry-after");
  if (header == response.headers.end()) return std::nullopt;
  double seconds = 0;
  const std::string& text = header->second;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc()) {
    const std::time_t date = curl_getdate(text.c_str(), nullptr);
    if (date < 0) return std::nullopt;  // Neither: we use our own wait.
    // By the server's own clock where it says the time: ours may be wrong.
    std::time_t now = -1;
    if (const auto stamp = response.headers.find("date"); stamp != response.headers.end()) {
      now = curl_getdate(stamp->second.c_str(), nullptr);
    }
    seconds = std::max(0.0, std::difftime(date, now >= 0 ? now : std::time(nullptr)));
  }
  if (!(seconds >= 0)) return std::nullopt;
  seconds = std::min(seconds, static_cast<double>(kMaxRetryAfterSeconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

absl::Status HttpError(const std::string& url, const HttpPosted& response, const std::string& body,
                       const Secrets& secrets) {
  const std::string text =
      fmt::format("post to {}: HTTP {}: {}", url, response.status, ErrorText(body, secrets));
  absl::Status status;
  switch (response.status) {
    case 401:
    case 403:
      return absl::UnauthenticatedError(text + " (check the key)");
    case 404:
      return absl::NotFoundError(text + " (check the model's name and the base URL)");
    case 408:
      status = absl::UnavailableError(text);
      break;
    case 429:
      status = absl::ResourceExhaustedError(text);
      break;
    default:
      if (response.status < 500) return absl::InvalidArgumentError(text);
      status = absl::UnavailableError(text);
  }
  const auto wait = ParseRetryAfter(response);
  return wait ? WithRetryAfter(std::move(status), *wait) : status;
}

class HttpLlmClient final : public LlmClient {
 public:
  HttpLlmClient(LlmEndpoint endpoint, std::unique_ptr<Provider> provider, HttpClient& http)
      : endpoint_(std::move(endpoint)), provider_(std::move(provider)), http_(http) {
    secrets_.push_back(endpoint_.api_key);
    for (const auto& [name, value] : endpoint_.headers) secrets_.push_back(value);
    // One may hold another, as "Bearer " and the key.
    std::sort(secrets_.begin(), secrets_.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }

  std::string_view provider() const override { return provider_->name(); }

  absl::StatusOr<LlmReply> Complete(const LlmRequest& request, std::stop_token stop) override {
    HttpPost post;
    post.url = endpoint_.base_url + provider_->path();
    post.headers = provider_->Headers(endpoint_.api_key);
    post.headers.insert(post.headers.end(), endpoint_.headers.begin(), endpoint_.headers.end());
    post.body = provider_->Body(request).dump(-1, ' ', false, kReplaceInvalid);
    post.connect_limit = endpoint_.connect_limit;
    post.total_limit = endpoint_.total_limit;
    post.idle_limit = endpoint_.idle_limit;
    post.ca_file = endpoint_.ca_file;

    SseParser parser;
    const std::unique_ptr<ReplyDecoder> decoder = provider_->NewDecoder();
    std::string error_body;
    absl::Status decoding;
    const auto on_data = [&](const HttpPosted& response, std::string_view bytes) {
      if (response.status != 200) {
        error_body += bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, error_body.size()));
        return true;
      }
      for (const SseEvent& event : parser.Feed(bytes)) {
        decoding = decoder->Feed(event);
        if (!decoding.ok()) return false;
      }
      if (parser.pending_bytes() > 2 * kMaxAnswerBytes) {
        decoding = absl::OutOfRangeError("the model's stream has an event without an end");
        return false;
      }
      return true;
    };
    const absl::StatusOr<HttpPosted> response = http_.Post(post, on_data, std::move(stop));
    if (!decoding.ok()) return WithoutSecrets(decoding, secrets_);
    if (!response.ok()) return response.status();
    if (response->status != 200) {
      return AsUnbilled(HttpError(post.url, *response, error_body, secrets_));
    }
    return decoder->Finish();
  }

 private:
  const LlmEndpoint endpoint_;
  const std::unique_ptr<Provider> provider_;
  HttpClient& http_;
  Secrets secrets_;  // Longest first.
};

}  // namespace

bool IsUnbilled(const absl::Status& status) { return status.GetPayload(kUnbilledUrl).has_value(); }

absl::Status AsUnbilled(absl::Status status) {
  status.SetPayload(kUnbilledUrl, absl::Cord("1"));
  return status;
}

absl::StatusOr<std::unique_ptr<LlmClient>> MakeLlmClient(LlmEndpoint endpoint, HttpClient& http) {
  std::unique_ptr<Provider> provider;
  if (endpoint.provider == "anthropic") provider = AnthropicProvider();
  if (endpoint.provider == "openai") provider = OpenAiProvider(endpoint.limit_field);
  if (provider == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "provider '{}' is unknown; use anthropic, or openai for every compatible server",
        endpoint.provider));
  }
  if (endpoint.base_url.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("provider {} needs a base_url", endpoint.provider));
  }
  while (endpoint.base_url.back() == '/') endpoint.base_url.pop_back();
  return std::make_unique<HttpLlmClient>(std::move(endpoint), std::move(provider), http);
}

std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterUrl);
  if (!payload) return std::nullopt;
  return std::chrono::milliseconds(std::atoll(std::string(*payload).c_str()));
}

absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds wait) {
  status.SetPayload(kRetryAfterUrl, absl::Cord(std::to_string(wait.count())));
  return status;
}

namespace {

json CallsJson(const std::vector<LlmToolCall>& calls) {
  json out = json::array();
  for (const LlmToolCall& call : calls) {
    out.push_back({{"id", call.id},
                   {"name", call.name},
                   {"input", call.input},
                   {"raw_input", RepairUtf8(call.raw_input)}});
  }
  return out;
}

constexpr std::string_view kStopNames[] = {"end", "tool_use", "max_tokens", "refusal", "other"};

}  // namespace

json ToJson(const LlmRequest& request) {
  json messages = json::array();
  for (const LlmMessage& message : request.messages) {
    json results = json::array();
    for (const LlmToolResult& result : message.results) {
      results.push_back(
          {{"id", result.id}, {"text", RepairUtf8(result.text)}, {"is_error", result.is_error}});
    }
    messages.push_back({{"role", message.role == LlmMessage::Role::kUser ? "user" : "assistant"},
                        {"text", RepairUtf8(message.text)},
                        {"calls", CallsJson(message.calls)},
                        {"results", std::move(results)},
                        {"raw", message.raw}});
  }
  json tools = json::array();
  for (const LlmTool& tool : request.tools) {
    tools.push_back(
        {{"name", tool.name}, {"description", tool.description}, {"schema", tool.schema}});
  }
  return {{"model", request.model},
          {"system", RepairUtf8(request.system)},
          {"messages", std::move(messages)},
          {"tools", std::move(tools)},
          {"require_tool", request.require_tool},
          {"max_output_tokens", request.max_output_tokens},
          {"temperature", request.temperature ? json(*request.temperature) : json()}};
}

json ToJson(const LlmReply& reply) {
  return {{"text", RepairUtf8(reply.text)},
          {"calls", CallsJson(reply.calls)},
          {"stop", kStopNames[static_cast<int>(reply.stop)]},
          {"usage",
           {{"input_tokens", reply.usage.input_tokens},
            {"cache_read_tokens", reply.usage.cache_read_tokens},
            {"cache_write_tokens", reply.usage.cache_write_tokens},
            {"output_tokens", reply.usage.output_tokens},
            {"reported", reply.usage.reported}}},
          {"model", reply.model},
          {"request_id", reply.request_id},
          {"raw", reply.raw}};
}

absl::StatusOr<LlmReply> LlmReplyFromJson(const json& value) {
  const auto broken = [](const char* what) {
    return absl::InvalidArgumentError(fmt::format("read a recorded reply: field '{}'", what));
  };
  if (!value.is_object()) return broken("(object)");
  LlmReply reply;
  reply.text = TextAt(value, "text");
  reply.model = TextAt(value, "model");
  reply.request_id = TextAt(value, "request_id");
  if (const auto raw = value.find("raw"); raw != value.end()) reply.raw = *raw;
  const auto calls = value.find("calls");
  if (calls == value.end() || !calls->is_array()) return broken("calls");
  for (const json& call : *calls) {
    if (!call.is_object()) return broken("calls");
    LlmToolCall made = MakeToolCall(TextAt(call, "id"), TextAt(call, "name"), "");
    made.input = call.value("input", json());
    made.raw_input = TextAt(call, "raw_input");
    reply.calls.push_back(std::move(made));
  }
  const std::string stop = TextAt(value, "stop");
  const auto* const found = std::find(std::begin(kStopNames), std::end(kStopNames), stop);
  if (found == std::end(kStopNames)) return broken("stop");
  reply.stop = static_cast<LlmReply::Stop>(found - std::begin(kStopNames));
  const auto usage = value.find("usage");
  if (usage == value.end() || !usage->is_object()) return broken("usage");
  reply.usage = {.input_tokens = CountAt(*usage, "input_tokens"),
                 .cache_read_tokens = CountAt(*usage, "cache_read_tokens"),
                 .cache_write_tokens = CountAt(*usage, "cache_write_tokens"),
                 .output_tokens = CountAt(*usage, "output_tokens"),
                 .reported = usage->value("reported", json(false)) == json(true)};
  return reply;
}

}  // namespace fettle
