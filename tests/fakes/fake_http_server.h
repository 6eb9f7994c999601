// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fettle {

// An HTTP server on a real loopback socket that plays scripted answers, one per connection, byte
// for byte, and so can misbehave in every way that matters: cut, stall, reset.
class FakeHttpServer {
 public:
  // One piece of an answer: send, then go on, stall or reset the connection.
  struct Piece {
    enum class After { kContinue, kStall, kReset };
    std::string bytes;
    After after = After::kContinue;
  };
  using Answer = std::vector<Piece>;

  FakeHttpServer();
  ~FakeHttpServer();
  FakeHttpServer(const FakeHttpServer&) = delete;
  FakeHttpServer& operator=(const FakeHttpServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:port"
  // The answers in order; the last one repeats.
  void Play(std::vector<Answer> answers);
  // Asks `respond` for each request's answer instead (head and body in, on the connection's
  // thread).
  using Responder = std::function<Answer(const std::string& request)>;
  void Respond(Responder respond);
  // Forgets requests once they are answered, for long runs.
  void ForgetRequests() { keep_requests_ = false; }
  // Whole requests (head and body) as they came.
  std::vector<std::string> requests() const;
  // Waits until `count` requests have arrived.
  void AwaitRequests(std::size_t count) const;

 private:
  void Serve();
  void Handle(int connection);

  int listener_ = -1;
  int stop_event_ = -1;  // Readable once the server ends.
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<Answer> answers_;        // Guarded by mutex_.
  Responder respond_;                  // Guarded by mutex_.
  std::vector<std::string> requests_;  // Guarded by mutex_.
  struct Handler {
    std::shared_ptr<std::atomic<bool>> done;
    std::jthread thread;
  };
  std::atomic<bool> keep_requests_ = true;
  std::vector<Handler> handlers_;  // Only thread_ uses it.
  std::jthread thread_;
};

// A whole answer with the headers that it needs.
FakeHttpServer::Answer HttpAnswer(int status, const std::string& body,
                                  const std::string& extra_headers = "");
// The head of an event stream; its events follow as further pieces and the connection's end ends
// it.
std::string StreamHead();

}  // namespace fettle
