// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fettle {

// A few threads for work that gRPC's own must not do: database and file access, parsing. Tasks run
// in order of arrival. Thread-safe.
class Executor {
 public:
  // Thread names are "`name`-0", ...; at most 13 characters of `name`.
  Executor(const std::string& name, int threads, std::size_t max_queued);
  ~Executor();

  // False when the queue is full or Stop was called; `task` is then dropped.
  bool Post(std::function<void()> task);
  // As Post without the limit, for work that ends something already begun.
  bool PostUrgent(std::function<void()> task);
  // Runs what is queued, then ends the threads. Idempotent.
  void Stop();

 private:
  bool Enqueue(std::function<void()> task, bool bounded);
  void Work();

  const std::size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> queue_;  // Guarded by mutex_.
  bool stopping_ = false;                    // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace fettle
