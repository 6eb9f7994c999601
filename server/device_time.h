// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <absl/status/statusor.h>

namespace fettle {

// One job's device time: what is spent, and what is reserved for units under way. A unit gets no
// more than its reservation (WorkUnit::device_cap_ms), and what is reserved and spent together
// never exceeds the budget; so the hard end needs no guess of how long a unit takes. Thread-safe.
class DeviceTime {
 public:
  // `changed` is called after device time was charged or given back; must not block.
  explicit DeviceTime(std::function<void()> changed) : changed_(std::move(changed)) {}

  // Begins anew. `budget_ms` 0: no limit, and nothing is refused. `longest_ms`: of a unit so far;
  // 0: not known.
  void Start(std::int64_t budget_ms, std::int64_t spent_ms, std::int64_t longest_ms);

  // Reserves for `units` units that follow one another, under `id`: an equal share of what is free
  // where `shares` such requests are to be expected, at least `units` times the longest unit so
  // far. Returns it in ms; 0: no limit. kResourceExhausted: less is left; kUnavailable: reserved.
  absl::StatusOr<std::int64_t> Reserve(const std::string& id, int units, std::int64_t shares);
  // Requests of Reserve that what is free has room for; large without a limit.
  std::int64_t Room(int units) const;

  // What the units of `id` may still take together; 0: no limit.
  std::int64_t CapOf(const std::string& id) const;
  // A unit of `id` took so much: spent instead of reserved.
  void Charge(const std::string& id, std::int64_t used_ms);
  // How long a whole unit took.
  void SawUnit(std::int64_t used_ms);
  // No more units of `id` come.
  void Release(const std::string& id);

  // For units that were reserved before: as much as then.
  void Keep(const std::string& id, std::int64_t ms);
  // For a candidate of a resumed job: half of what is free, however little.
  void ReserveRest(const std::string& id);
  // The job has ended: its device time so far. What comes later goes to `late`, which must not
  // block.
  std::int64_t End(std::function<void(std::int64_t ms)> late);

  std::int64_t longest_ms() const;
  std::int64_t spent_ms() const;

 private:
  std::int64_t Free() const;  // Needs mutex_.

  const std::function<void()> changed_;
  mutable std::mutex mutex_;
  std::int64_t budget_ms_ = 0, spent_ms_ = 0, longest_ms_ = 0;  // Guarded by mutex_.
  std::map<std::string, std::int64_t> reserved_;                // By id. Guarded by mutex_.
  std::function<void(std::int64_t)> late_;                      // Guarded by mutex_.
};

// The reservation of one try outside the candidates, given back with this object. Thread-safe.
class TryReservation {
 public:
  explicit TryReservation(std::shared_ptr<DeviceTime> time);
  ~TryReservation();
  TryReservation(const TryReservation&) = delete;
  TryReservation& operator=(const TryReservation&) = delete;

  // As DeviceTime::Reserve.
  absl::Status Reserve();
  std::int64_t cap_ms() const { return cap_ms_; }  // 0: no limit.
  // Of an attempt at it.
  void Charge(std::int64_t device_ms);
  // A whole try took so long.
  void SawUnit(std::int64_t device_ms) { time_->SawUnit(device_ms); }
  // All attempts together.
  std::int64_t used_ms() const { return used_ms_; }

 private:
  const std::shared_ptr<DeviceTime> time_;
  const std::string id_;
  std::int64_t cap_ms_ = 0;
  std::atomic<std::int64_t> used_ms_ = 0;
};

}  // namespace fettle
