// SPDX-License-Identifier: Apache-2.0
#include "worker/held_units.h"

#include <chrono>

#include <fmt/format.h>

namespace fettle {

std::string UnitKeyText(const UnitKey& key) { return fmt::format("{}:{}", key.first, key.second); }

HeldUnits::~HeldUnits() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, entry] : units_) {
      entry.stop.request_stop();
      if (entry.thread.joinable()) threads.push_back(std::move(entry.thread));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void HeldUnits::Sweep() {
  for (auto entry = units_.begin(); entry != units_.end();) {
    if (entry->second.running || !entry->second.dropped) {
      ++entry;
      continue;
    }
    if (entry->second.thread.joinable()) entry->second.thread.join();  // It has nothing left to do.
    entry = units_.erase(entry);
  }
}

void HeldUnits::Lease(WorkUnit unit) {
  const UnitKey key{unit.id, unit.attempt};
  const std::lock_guard lock(mutex_);
  Sweep();
  const auto [found, fresh] = units_.try_emplace(key);
  if (!fresh) return;
  found->second.thread =
      std::thread([this, key, unit = std::move(unit), stop = found->second.stop.get_token()] {
        Finish(key, work_(unit, stop));
      });
}

void HeldUnits::Finish(const UnitKey& key, UnitOutcome outcome) {
  const std::lock_guard lock(mutex_);
  const auto found = units_.find(key);
  if (found == units_.end()) return;
  found->second.running = false;
  if (!found->second.outcome) found->second.outcome = std::move(outcome);
  changed_.notify_all();
}

void HeldUnits::Cancel(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = units_.find(key); found != units_.end()) found->second.stop.request_stop();
}

void HeldUnits::Acknowledge(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = units_.find(key); found != units_.end() && found->second.outcome) {
    found->second.dropped = true;
  }
  Sweep();
  changed_.notify_all();
}

void HeldUnits::ReturnAll(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : units_) {
    if (entry.outcome) continue;
    entry.stop.request_stop();
    UnitOutcome returned;
    returned.reason = reason;
    entry.outcome = std::move(returned);
  }
  changed_.notify_all();
}

void HeldUnits::MarkUnsent() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : units_) entry.sent = false;
  changed_.notify_all();
}

std::optional<HeldUnits::Ready> HeldUnits::NextUnsent(std::stop_token stop,
                                                      std::chrono::milliseconds limit,
                                                      bool with_blobs) {
  std::unique_lock lock(mutex_);
  std::optional<Ready> ready;
  const auto find = [this, &ready, with_blobs] {
    for (auto& [key, entry] : units_) {
      if (!entry.outcome || entry.sent || entry.dropped) continue;
      if (!with_blobs && !entry.outcome->blobs.empty()) continue;
      entry.sent = true;
      ready = Ready{key, *entry.outcome};
      return true;
    }
    return false;
  };
  changed_.wait_for(lock, stop, limit, find);
  return ready;
}

void HeldUnits::Unsend(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = units_.find(key); found != units_.end()) found->second.sent = false;
}

std::vector<std::string> HeldUnits::Keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : units_) {
    if (!entry.dropped) keys.push_back(UnitKeyText(key));
  }
  return keys;
}

bool HeldUnits::WaitEmpty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] {
    for (const auto& [key, entry] : units_) {
      if (!entry.dropped) return false;
    }
    return true;
  });
}

}  // namespace fettle
