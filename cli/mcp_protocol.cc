// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_protocol.h"

#include <atomic>
#include <memory>

#include "core/json_text.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr char kModern[] = "2026-07-28";
constexpr char kLegacy[] = "2025-11-25";
constexpr char kVersionKey[] = "io.modelcontextprotocol/protocolVersion";
constexpr char kCapabilitiesKey[] = "io.modelcontextprotocol/clientCapabilities";
constexpr char kServerInfoKey[] = "io.modelcontextprotocol/serverInfo";
constexpr std::int64_t kToolsTtlMs = 3'600'000;  // The list never changes while a server lives.

// Of JSON-RPC and, for the last one, of the protocol.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kUnsupportedVersion = -32022;

json Member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

json Supported() { return json::array({kModern, kLegacy}); }
json Capabilities() { return {{"tools", {{"listChanged", false}}}}; }

}  // namespace

McpSession::McpSession(McpTools& tools, McpOptions options, std::function<void(std::string)> send)
    : tools_(tools), options_(std::move(options)), send_(std::move(send)) {}

McpSession::~McpSession() {
  std::map<std::string, Call> calls;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, call] : calls_) call.stop.request_stop();
    calls.swap(calls_);
  }
  calls.clear();  // Joins.
}

bool McpSession::AllDone() const {
  return std::all_of(calls_.begin(), calls_.end(),
                     [](const auto& entry) { return entry.second.done; });
}

void McpSession::Drain() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return AllDone(); });
}

bool McpSession::DrainFor(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, limit, [this] { return AllDone(); });
}

void McpSession::Send(const json& message) {
  const std::string text = message.dump(-1, ' ', false, kReplaceInvalid);
  const std::lock_guard lock(send_mutex_);
  send_(text);
}

void McpSession::Error(const json& id, int code, const std::string& message, json data) {
  json error = {{"code", code}, {"message", message}};
  if (!data.is_null()) error["data"] = std::move(data);
  json out = {{"jsonrpc", "2.0"}, {"error", std::move(error)}};
  if (!id.is_null()) out["id"] = id;
  Send(out);
}

void McpSession::Result(const json& id, json result, bool modern) {
  if (modern) {
    result["resultType"] = "complete";
    result["_meta"][kServerInfoKey] = ServerInfo();
  }
  Send({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}

json McpSession::ServerInfo() const {
  return {{"name", options_.name}, {"version", options_.version}};
}

void McpSession::Handle(std::string_view line) {
  Reap();
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  const json message = ParseJson(line);
  if (message.is_discarded())
    return Error(nullptr, kParseError,
                 "not JSON, or nested more than " + std::to_string(kMaxJsonNesting) + " deep");
  if (!message.is_object() || Member(message, "jsonrpc") != "2.0" ||
      !Member(message, "method").is_string()) {
    // A client never answers anything here, so that a response is no request either.
    return Error(nullptr, kInvalidRequest, "not a JSON-RPC 2.0 request or notification");
  }
  const std::string method = message["method"].get<std::string>();
  const json params = Member(message, "params");
  const json id = Member(message, "id");
  if (!message.contains("id")) return HandleNotification(method, params);
  if (!id.is_string() && !id.is_number_integer()) {
    return Error(nullptr, kInvalidRequest, "id must be a string or an integer");
  }
  if (!params.is_null() && !params.is_object()) {
    return Error(id, kInvalidParams, "params must be an object");
  }
  HandleRequest(id, method, params);
}

void McpSession::HandleRequest(const json& id, const std::string& method, const json& params) {
  const json meta = Member(params, "_meta");
  const json version = Member(meta, kVersionKey);
  if (method == "initialize" && version.is_null()) return Initialize(id, params);
  const bool modern = !version.is_null();
  if (modern) {
    if (!version.is_string() || !Member(meta, kCapabilitiesKey).is_object()) {
      return Error(id, kInvalidParams,
                   std::string("_meta must hold ") + kVersionKey + " and " + kCapabilitiesKey);
    }
    if (version != kModern) {
      return Error(id, kUnsupportedVersion, "Unsupported protocol version",
                   {{"supported", Supported()}, {"requested", version}});
    }
  } else if (!initialized_) {
    return Error(id, kInvalidParams,
                 std::string("_meta must hold ") + kVersionKey + " and " + kCapabilitiesKey +
                     "; a client of revision " + kLegacy + " begins with initialize",
                 {{"supported", Supported()}});
  }
  if (method == "server/discover" && modern) {
    return Result(id,
                  {{"supportedVersions", Supported()},
                   {"capabilities", Capabilities()},
                   {"instructions", tools_.instructions()},
                   {"ttlMs", kToolsTtlMs},
                   {"cacheScope", "public"}},
                  modern);
  }
  if (method == "tools/list") {
    if (!Member(params, "cursor").is_null()) {
      return Error(id, kInvalidParams, "cursor: the list has one page");
    }
    json result = {{"tools", tools_.List()}};
    if (modern) {
      result["ttlMs"] = kToolsTtlMs;
      result["cacheScope"] = "public";
    }
    return Result(id, std::move(result), modern);
  }
  if (method == "tools/call") return StartCall(id, params, modern);
  if (method == "ping" && !modern) return Result(id, json::object(), modern);
  Error(id, kMethodNotFound, "no such method: " + CutText(method, 100));
}

void McpSession::Initialize(const json& id, const json& params) {
  if (!Member(params, "protocolVersion").is_string()) {
    return Error(id, kInvalidParams, "protocolVersion must be text");
  }
  initialized_ = true;
  Result(id,
         {{"protocolVersion", kLegacy},
          {"capabilities", Capabilities()},
          {"serverInfo", ServerInfo()},
          {"instructions", tools_.instructions()}},
         /*modern=*/false);
}

void McpSession::HandleNotification(const std::string& method, const json& params) {
  if (method != "notifications/cancelled") return;
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(Member(params, "requestId").dump(-1, ' ', false, kReplaceInvalid));
  if (found != calls_.end()) found->second.stop.request_stop();
}

void McpSession::StartCall(const json& id, const json& params, bool modern) {
  const json name = Member(params, "name");
  json arguments = Member(params, "arguments");
  if (arguments.is_null()) arguments = json::object();
  if (!name.is_string() || !tools_.Has(name.get_ref<const std::string&>())) {
    return Error(id, kInvalidParams,
                 "Unknown tool: " + CutText(name.is_string() ? name.get<std::string>() : "", 100));
  }
  if (!arguments.is_object()) return Error(id, kInvalidParams, "arguments must be an object");
  const std::string key = id.dump(-1, ' ', false, kReplaceInvalid);
  const std::lock_guard lock(mutex_);
  if (calls_.contains(key)) return Error(id, kInvalidRequest, "this id is under way already");
  if (calls_.size() >= options_.max_calls) {
    return Error(id, kInvalidRequest, "too many calls are under way; wait for one to end");
  }
  Call& call = calls_[key];
  const json token = Member(Member(params, "_meta"), "progressToken");
  call.thread = std::jthread([this, id, key, name = name.get<std::string>(), arguments, token,
                              modern, stop = call.stop.get_token()] {
    int sent = 0;
    const auto progress = [&](std::string message) {
      if (token.is_null() || stop.stop_requested()) return;
      Send({{"jsonrpc", "2.0"},
            {"method", "notifications/progress"},
            {"params",
             {{"progressToken", token}, {"progress", ++sent}, {"message", std::move(message)}}}});
    };
    const McpToolResult result = tools_.Call(name, arguments, progress, stop);
    // Nothing may follow a cancellation.
    if (!stop.stop_requested()) {
      json out = {
          {"content",
           {{{"type", "text"}, {"text", result.document.dump(-1, ' ', false, kReplaceInvalid)}}}},
          {"structuredContent", result.document},
          {"isError", result.is_error}};
      Result(id, std::move(out), modern);
    }
    const std::lock_guard done(mutex_);
    if (const auto found = calls_.find(key); found != calls_.end()) found->second.done = true;
    ended_.notify_all();
  });
}

void McpSession::Reap() {
  std::vector<Call> done;
  const std::lock_guard lock(mutex_);
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.done) {
      done.push_back(std::move(it->second));
      it = calls_.erase(it);
    } else {
      ++it;
    }
  }
  // Their threads need no lock any more: each was marked under it, as its last act.
}

}  // namespace fettle
