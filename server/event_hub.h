// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fettle {

// Tells readers of a job's events that there are new ones. A bell carries no data: readers keep a
// cursor and read the store, so that a slow reader never makes a job wait. Thread-safe.
class EventHub {
 public:
  // Called after every Ring of the job and after Close. Must not call back into the hub.
  using Bell = std::function<void()>;

  // Keeps a bell registered. A call already under way may finish after the subscription is gone, so
  // a bell owns what it touches (weak_ptr, not this).
  class Subscription {
   public:
    Subscription() = default;

   private:
    friend class EventHub;
    explicit Subscription(std::shared_ptr<const Bell> bell) : bell_(std::move(bell)) {}
    std::shared_ptr<const Bell> bell_;
  };

  [[nodiscard]] Subscription Subscribe(const std::string& job_id, Bell bell);
  // Rung for every job.
  [[nodiscard]] Subscription SubscribeAll(Bell bell) {
    return Subscribe(kAllJobs, std::move(bell));
  }
  void Ring(const std::string& job_id);
  // Wakes all readers for good: the server is going away.
  void Close();
  bool closed() const;

 private:
  using Bells = std::vector<std::weak_ptr<const Bell>>;
  static constexpr char kAllJobs[] = "";
  static void Collect(Bells& bells, std::vector<std::shared_ptr<const Bell>>& ringing);

  mutable std::mutex mutex_;
  std::map<std::string, Bells> bells_;  // By job. Guarded by mutex_.
  bool closed_ = false;                 // Guarded by mutex_.
};

}  // namespace fettle
