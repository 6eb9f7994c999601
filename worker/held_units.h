// SPDX-License-Identifier: Apache-2.0
#pragma once

// The units a worker holds, from lease to acknowledged result. No gRPC here.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/work_unit.h"

namespace fettle {

using UnitKey = std::pair<std::string, int>;  // Unit id, attempt.
std::string UnitKeyText(const UnitKey& key);  // "unit:attempt"

// How a unit ended: a result with the blobs it refers to, or the reason it is given back.
struct UnitOutcome {
  std::string result_json;  // Empty: returned.
  std::vector<std::string> blobs;
  std::string reason;
  bool retryable = true;
  std::optional<std::int64_t> device_ms;  // Of one that is given back; unset: not known.
};

// Thread-safe.
class HeldUnits {
 public:
  // Carries out one unit; runs on a thread of its own.
  using Work = std::function<UnitOutcome(const WorkUnit&, std::stop_token)>;
  explicit HeldUnits(Work work) : work_(std::move(work)) {}
  // Stops and joins what still runs.
  ~HeldUnits();

  // Starts a unit. A unit that is held already, running or finished, is not started again.
  void Lease(WorkUnit unit);
  void Cancel(const UnitKey& key);
  // The server has the outcome.
  void Acknowledge(const UnitKey& key);
  // Asks every running unit to stop and marks it as given back at once, with `reason`.
  void ReturnAll(const std::string& reason);
  // After a new connection everything unacknowledged is to be sent again.
  void MarkUnsent();

  // An outcome not sent yet, marked as sent; without `with_blobs` one that refers to no blobs.
  // Waits until there is one, `stop` is requested or `limit` passes.
  struct Ready {
    UnitKey key;
    UnitOutcome outcome;
  };
  std::optional<Ready> NextUnsent(std::stop_token stop, std::chrono::milliseconds limit,
                                  bool with_blobs = true);
  // Puts an outcome back that could not be sent.
  void Unsend(const UnitKey& key);

  std::vector<std::string> Keys() const;  // "unit:attempt", running or unacknowledged.
  // Waits until nothing is held or `limit` passes; whether nothing is held.
  bool WaitEmpty(std::chrono::milliseconds limit);

 private:
  struct Entry {
    std::stop_source stop;
    std::optional<UnitOutcome> outcome;
    bool sent = false;
    bool running = true;
    bool dropped = false;  // Acknowledged or returned; only the thread is left.
    std::thread thread;
  };
  void Finish(const UnitKey& key, UnitOutcome outcome);
  void Sweep();  // Joins ended threads; the caller holds mutex_.

  Work work_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<UnitKey, Entry> units_;  // Guarded by mutex_.
};

}  // namespace fettle
