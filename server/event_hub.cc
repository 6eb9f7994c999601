// SPDX-License-Identifier: Apache-2.0
#include "server/event_hub.h"

namespace fettle {

EventHub::Subscription EventHub::Subscribe(const std::string& job_id, Bell bell) {
  auto shared = std::make_shared<const Bell>(std::move(bell));
  const std::lock_guard lock(mutex_);
  bells_[job_id].push_back(shared);
  return Subscription(std::move(shared));
}

void EventHub::Collect(Bells& bells, std::vector<std::shared_ptr<const Bell>>& ringing) {
  std::erase_if(bells, [&](const std::weak_ptr<const Bell>& weak) {
    auto bell = weak.lock();
    if (bell == nullptr) return true;
    ringing.push_back(std::move(bell));
    return false;
  });
}

void EventHub::Ring(const std::string& job_id) {
  std::vector<std::shared_ptr<const Bell>> ringing;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& key : {job_id, std::string(kAllJobs)}) {
      const auto found = bells_.find(key);
      if (found == bells_.end()) continue;
      Collect(found->second, ringing);
      if (found->second.empty()) bells_.erase(found);
    }
  }
  for (const auto& bell : ringing) (*bell)();  // Outside the lock.
}

void EventHub::Close() {
  std::vector<std::shared_ptr<const Bell>> ringing;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& [job, bells] : bells_) Collect(bells, ringing);
  }
  for (const auto& bell : ringing) (*bell)();
}

bool EventHub::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace fettle
