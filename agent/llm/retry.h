// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>

#include "agent/llm/llm_client.h"

namespace fettle {

struct RetryPolicy {
  int max_attempts = 6;
  std::chrono::milliseconds first_wait{1000};  // Doubles with each attempt, with full jitter above
  std::chrono::milliseconds longest_wait{
      60000};  // half of it; a server's Retry-After is kept exactly.
  std::chrono::milliseconds total_limit{1200000};  // Of all attempts and waits together.
};

// Sleeps until `wait` has passed; false when `stop` was requested first.
using InterruptibleSleep =
    std::function<bool(std::chrono::milliseconds wait, std::stop_token stop)>;
InterruptibleSleep RealSleep();

// Repeats what may succeed when repeated: kUnavailable, kResourceExhausted, kDataLoss (a cut
// stream) and kDeadlineExceeded (a stalled one). Everything else comes back at once. Thread-safe.
class RetryingClient final : public LlmClient {
 public:
  // `inner` must outlive this object. `on_attempt` hears of each failed attempt before its wait.
  struct Attempt {
    int number = 0;  // From 1.
    absl::Status status;
    std::chrono::milliseconds wait{};
  };
  RetryingClient(LlmClient& inner, RetryPolicy policy, InterruptibleSleep sleep,
                 std::function<std::chrono::steady_clock::time_point()> now,
                 std::function<void(const Attempt&)> on_attempt, std::uint64_t seed);

  std::string_view provider() const override { return inner_.provider(); }
  // As LlmClient::Complete; the message of a final failure names the number of attempts.
  absl::StatusOr<LlmReply> Complete(const LlmRequest& request, std::stop_token stop) override;

 private:
  std::chrono::milliseconds Wait(int attempt, const absl::Status& status);

  LlmClient& inner_;
  const RetryPolicy policy_;
  const InterruptibleSleep sleep_;
  const std::function<std::chrono::steady_clock::time_point()> now_;
  const std::function<void(const Attempt&)> on_attempt_;
  std::mutex mutex_;
  std::mt19937_64 random_;  // Guarded by mutex_.
};

}  // namespace fettle
