// SPDX-License-Identifier: Apache-2.0
#pragma once

// The Model Context Protocol over a byte stream, one JSON-RPC message a line: revision 2026-07-28
// (every request carries its version; server/discover) and the one before, 2025-11-25 (initialize).

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

namespace fettle {

// What a tool answers: a document, or a failure that the model can act on.
struct McpToolResult {
  nlohmann::json document;
  bool is_error = false;
};

// The tools that a server offers. Thread-safe.
class McpTools {
 public:
  // Tells how far a call is; `message` for a person.
  using Progress = std::function<void(std::string message)>;

  virtual ~McpTools() = default;
  // [{name, title, description, inputSchema, annotations}], always in the same order.
  virtual nlohmann::json List() const = 0;
  virtual bool Has(std::string_view name) const = 0;
  virtual McpToolResult Call(const std::string& name, const nlohmann::json& arguments,
                             const Progress& progress, std::stop_token stop) = 0;
  virtual std::string instructions() const = 0;
};

struct McpOptions {
  std::string name = "fettle";
  std::string version;
  std::size_t max_calls = 16;  // Under way at once.
};

// One client's stream. Tool calls run side by side, each on a thread; everything else is answered
// at once. Handle is called from one thread.
class McpSession {
 public:
  // `send` gets one message (no line end); it is called under a lock, from several threads. Both
  // must outlive the session.
  McpSession(McpTools& tools, McpOptions options, std::function<void(std::string)> send);
  // Stops what is under way; those calls are not answered.
  ~McpSession();

  void Handle(std::string_view line);
  // Waits until every call has been answered.
  void Drain();
  // The same, so long at most; false: some are under way.
  bool DrainFor(std::chrono::milliseconds limit);

 private:
  struct Call {
    std::stop_source stop;
    std::jthread thread;
    bool done = false;
  };

  void Send(const nlohmann::json& message);
  void Error(const nlohmann::json& id, int code, const std::string& message,
             nlohmann::json data = nullptr);
  void Result(const nlohmann::json& id, nlohmann::json result, bool modern);
  void HandleRequest(const nlohmann::json& id, const std::string& method,
                     const nlohmann::json& params);
  void HandleNotification(const std::string& method, const nlohmann::json& params);
  void Initialize(const nlohmann::json& id, const nlohmann::json& params);
  void StartCall(const nlohmann::json& id, const nlohmann::json& params, bool modern);
  void Reap();
  bool AllDone() const;  // Needs mutex_.
  nlohmann::json ServerInfo() const;

  McpTools& tools_;
  const McpOptions options_;
  const std::function<void(std::string)> send_;
  bool initialized_ = false;  // A client of the revision before.

  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Call> calls_;  // By request id as JSON. Guarded by mutex_.
  std::mutex send_mutex_;
};

}  // namespace fettle
