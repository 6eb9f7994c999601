// SPDX-License-Identifier: Apache-2.0
#include "server/device_time.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "server/ids.h"

namespace fettle {
namespace {

// A try gets so much of what is free, so that another beside it finds room.
constexpr std::int64_t kTryShares = 2;

double Seconds(std::int64_t ms) { return static_cast<double>(ms) / 1000; }

}  // namespace

void DeviceTime::Start(std::int64_t budget_ms, std::int64_t spent_ms, std::int64_t longest_ms) {
  const std::lock_guard lock(mutex_);
  budget_ms_ = budget_ms;
  spent_ms_ = spent_ms;
  longest_ms_ = longest_ms;
  reserved_.clear();
  late_ = nullptr;
}

std::int64_t DeviceTime::Free() const {
  std::int64_t free = budget_ms_ - spent_ms_;
  for (const auto& [id, ms] : reserved_) free -= ms;
  return free;
}

absl::StatusOr<std::int64_t> DeviceTime::Reserve(const std::string& id, int units,
                                                 std::int64_t shares) {
  const std::lock_guard lock(mutex_);
  if (budget_ms_ == 0) return 0;
  const std::int64_t free = Free();
  const std::int64_t least = std::max<std::int64_t>(units * longest_ms_, units);
  if (free < least) {
    const std::int64_t left = budget_ms_ - spent_ms_;
    const std::string figures = fmt::format(
        "{} s left, of which {} s are reserved for what is under way; one more may take {} s",
        Seconds(left), Seconds(left - free), Seconds(least));
    if (left < least) {
      return absl::ResourceExhaustedError("the job's device time is spent: " + figures);
    }
    return absl::UnavailableError("the job's device time is reserved: " + figures +
                                  "; try again once that has ended");
  }
  return reserved_[id] = std::max(least, free / std::max<std::int64_t>(shares, 1));
}

std::int64_t DeviceTime::Room(int units) const {
  const std::lock_guard lock(mutex_);
  if (budget_ms_ == 0) return std::numeric_limits<int>::max();
  return std::max<std::int64_t>(0, Free()) / std::max<std::int64_t>(units * longest_ms_, units);
}

std::int64_t DeviceTime::CapOf(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  if (budget_ms_ == 0) return 0;
  const auto found = reserved_.find(id);
  // A cap of nothing would be none.
  return found == reserved_.end() ? 1 : std::max<std::int64_t>(1, found->second);
}

void DeviceTime::Charge(const std::string& id, std::int64_t used_ms) {
  std::function<void(std::int64_t)> late;
  {
    const std::lock_guard lock(mutex_);
    spent_ms_ += used_ms;
    if (const auto found = reserved_.find(id); found != reserved_.end()) {
      found->second = std::max<std::int64_t>(0, found->second - used_ms);
    }
    late = late_;
  }
  if (used_ms == 0) return;
  if (late) late(used_ms);
  changed_();
}

void DeviceTime::Keep(const std::string& id, std::int64_t ms) {
  const std::lock_guard lock(mutex_);
  if (budget_ms_ > 0) reserved_[id] = ms;
}

void DeviceTime::ReserveRest(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (budget_ms_ > 0 && !reserved_.contains(id)) {
    reserved_[id] = std::max<std::int64_t>(0, Free() / 2);
  }
}

std::int64_t DeviceTime::End(std::function<void(std::int64_t)> late) {
  const std::lock_guard lock(mutex_);
  late_ = std::move(late);
  return spent_ms_;
}

void DeviceTime::SawUnit(std::int64_t used_ms) {
  const std::lock_guard lock(mutex_);
  longest_ms_ = std::max(longest_ms_, used_ms);
}

void DeviceTime::Release(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    if (reserved_.erase(id) == 0) return;
  }
  changed_();
}

std::int64_t DeviceTime::spent_ms() const {
  const std::lock_guard lock(mutex_);
  return spent_ms_;
}

std::int64_t DeviceTime::longest_ms() const {
  const std::lock_guard lock(mutex_);
  return longest_ms_;
}

TryReservation::TryReservation(std::shared_ptr<DeviceTime> time)
    : time_(std::move(time)), id_(RandomId("try/")) {}

TryReservation::~TryReservation() { time_->Release(id_); }

absl::Status TryReservation::Reserve() {
  FETTLE_ASSIGN_OR_RETURN(cap_ms_, time_->Reserve(id_, /*units=*/1, kTryShares));
  return absl::OkStatus();
}

void TryReservation::Charge(std::int64_t device_ms) {
  used_ms_ += device_ms;
  time_->Charge(id_, device_ms);
}

}  // namespace fettle
