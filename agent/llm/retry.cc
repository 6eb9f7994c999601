// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/retry.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include <fmt/format.h>

namespace fettle {
namespace {

bool MayRetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDataLoss(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

InterruptibleSleep RealSleep() {
  return [](std::chrono::milliseconds wait, std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, wait, [] { return false; });
    return !stop.stop_requested();
  };
}

RetryingClient::RetryingClient(LlmClient& inner, RetryPolicy policy, InterruptibleSleep sleep,
                               std::function<std::chrono::steady_clock::time_point()> now,
                               std::function<void(const Attempt&)> on_attempt, std::uint64_t seed)
    : inner_(inner),
      policy_(policy),
      sleep_(std::move(sleep)),
      now_(std::move(now)),
      on_attempt_(std::move(on_attempt)),
      random_(seed) {}

std::chrono::milliseconds RetryingClient::Wait(int attempt, const absl::Status& status) {
  if (const auto asked = RetryAfter(status)) return *asked;
  const int doublings = std::min(attempt - 1, 20);
  const auto full = std::min<std::chrono::milliseconds>(policy_.first_wait * (1LL << doublings),
                                                        policy_.longest_wait);
  const std::lock_guard lock(mutex_);
  std::uniform_int_distribution<std::int64_t> jitter(full.count() / 2, full.count());
  return std::chrono::milliseconds(jitter(random_));
}

absl::StatusOr<LlmReply> RetryingClient::Complete(const LlmRequest& request, std::stop_token stop) {
  const auto begin = now_();
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<LlmReply> reply = inner_.Complete(request, stop);
    if (reply.ok() || !MayRetry(reply.status())) return reply;
    const auto wait = Wait(attempt, reply.status());
    const bool last =
        attempt >= policy_.max_attempts || now_() - begin + wait > policy_.total_limit;
    if (on_attempt_) on_attempt_({attempt, reply.status(), last ? decltype(wait){} : wait});
    if (last) {
      const auto asked = RetryAfter(reply.status());
      const std::string why =
          asked.has_value() && attempt < policy_.max_attempts
              ? fmt::format(
                    "; the server asks to wait {:g} s, which is beyond the {:g} s that one "
                    "question may take",
                    static_cast<double>(asked->count()) / 1000,
                    static_cast<double>(policy_.total_limit.count()) / 1000)
              : "";
      return absl::Status(
          reply.status().code(),
          fmt::format("{} (given up after {} attempt{}{})", std::string(reply.status().message()),
                      attempt, attempt == 1 ? "" : "s", why));
    }
    if (!sleep_(wait, stop)) return absl::CancelledError("waiting to repeat a call: cancelled");
  }
}

}  // namespace fettle
