// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <fmt/format.h>
#include <pthread.h>

namespace fettle {

Executor::Executor(const std::string& name, int threads, std::size_t max_queued)
    : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
    pthread_setname_np(threads_.back().native_handle(),
                       fmt::format("{}-{}", name.substr(0, 13), i % 10).c_str());
  }
}

Executor::~Executor() { Stop(); }

bool Executor::Post(std::function<void()> task) {
  return Enqueue(std::move(task), /*bounded=*/true);
}

bool Executor::PostUrgent(std::function<void()> task) {
  return Enqueue(std::move(task), /*bounded=*/false);
}

bool Executor::Enqueue(std::function<void()> task, bool bounded) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || (bounded && queue_.size() >= max_queued_)) return false;
    queue_.push_back(std::move(task));
  }
  ready_.notify_one();
  return true;
}

void Executor::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Executor::Work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace fettle
