// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/llm_client.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include <absl/strings/cord.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include "agent/llm/http_client.h"
#include "agent/llm/provider.h"
#include "agent/llm/secrets.h"
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
constexpr std::int64_t kMaxRetryAfterSeconds = 30 * 24 * 3600;

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
  return CutText(secrets.Clean(std::move(text)), kMaxErrorText);
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

// Reads the body of a good answer: a stream of events, or the one document of a server that does
// not stream.
class AnswerReader {
 public:
  explicit AnswerReader(std::unique_ptr<ReplyDecoder> decoder) : decoder_(std::move(decoder)) {}

  HttpClient::Next Take(std::string_view bytes) {
    if (!begun_) {
      const std::size_t first = bytes.find_first_not_of(" \t\r\n");
      if (first == std::string_view::npos) return HttpClient::Next::kGoOn;
      begun_ = true;
      whole_ = bytes[first] == '{';  // No field of an event begins so.
    }
    if (start_.size() < kMaxErrorText) start_ += bytes.substr(0, kMaxErrorText);
    if (whole_) {
      document_ += bytes;
      return document_.size() <= 2 * kMaxAnswerBytes ? HttpClient::Next::kGoOn : TooLong();
    }
    for (const SseEvent& event : parser_.Feed(bytes)) {
      any_event_ = true;
      decoding_ = decoder_->Feed(event);
      if (!decoding_.ok()) return HttpClient::Next::kStop;
      if (decoder_->done()) return HttpClient::Next::kEnough;
    }
    return parser_.pending_bytes() <= 2 * kMaxAnswerBytes ? HttpClient::Next::kGoOn : TooLong();
  }

  // `response`: how the transfer ended. An answer that is whole is taken however it did.
  absl::StatusOr<LlmReply> Finish(const std::string& url,
                                  const absl::StatusOr<HttpPosted>& response) {
    if (!decoding_.ok()) return decoding_;
    if (whole_ && response.ok()) {
      const json document = ParseJson(RepairUtf8(document_), kMaxPartNesting);
      if (!document.is_object()) return NoAnswer(url, *response);
      decoding_ = decoder_->FeedWhole(document);
      if (absl::IsInvalidArgument(decoding_) && !IsUnbilled(decoding_))
        return NoAnswer(url, *response);
      if (!decoding_.ok()) return decoding_;
    }
    if (!response.ok() && !decoder_->complete()) return response.status();
    if (response.ok() && begun_ && !whole_ && !any_event_ && !IsStream(*response)) {
      return NoAnswer(url, *response);
    }
    return decoder_->Finish();
  }

 private:
  HttpClient::Next TooLong() {
    decoding_ = absl::OutOfRangeError(
        fmt::format("the model's answer is longer than {} bytes", kMaxAnswerBytes));
    return HttpClient::Next::kStop;
  }
  static std::string TypeOf(const HttpPosted& response) {
    const auto type = response.headers.find("content-type");
    return type == response.headers.end() ? "" : type->second;
  }
  static bool IsStream(const HttpPosted& response) {
    return TypeOf(response).starts_with("text/event-stream");
  }
  // Asking again would change nothing.
  absl::Status NoAnswer(const std::string& url, const HttpPosted& response) const {
    std::string start = CutText(RepairUtf8(start_), kMaxErrorText);
    for (char& c : start) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return absl::InvalidArgumentError(
        fmt::format("post to {}: HTTP 200 with {}, which is no stream of events and no answer of "
                    "the protocol (check provider and base URL): {}",
                    url, CutText(TypeOf(response), 80), start));
  }

  const std::unique_ptr<ReplyDecoder> decoder_;
  SseParser parser_;
  absl::Status decoding_;
  std::string document_, start_;
  bool begun_ = false, whole_ = false, any_event_ = false;
};

class HttpLlmClient final : public LlmClient {
 public:
  HttpLlmClient(LlmEndpoint endpoint, std::unique_ptr<Provider> provider, HttpClient& http)
      : endpoint_(std::move(endpoint)),
        provider_(std::move(provider)),
        http_(http),
        secrets_(endpoint_.api_key, endpoint_.headers) {}

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

    AnswerReader reader(provider_->NewDecoder());
    std::string error_body;
    const auto on_data = [&](const HttpPosted& response, std::string_view bytes) {
      if (response.status == 200) return reader.Take(bytes);
      error_body += bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, error_body.size()));
      return HttpClient::Next::kGoOn;
    };
    const absl::StatusOr<HttpPosted> response = http_.Post(post, on_data, std::move(stop));
    if (response.ok() && response->status != 200) {
      return AsUnbilled(HttpError(post.url, *response, error_body, secrets_));
    }
    absl::StatusOr<LlmReply> reply = reader.Finish(post.url, response);
    if (!reply.ok()) return secrets_.Clean(reply.status());
    secrets_.Clean(*reply);
    return reply;
  }

 private:
  const LlmEndpoint endpoint_;
  const std::unique_ptr<Provider> provider_;
  HttpClient& http_;
  const Secrets secrets_;
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
