// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace fettle {

// Keeps one child process running: starts it, starts it again after a pause that grows while it
// keeps dying, ends it with SIGTERM, then SIGKILL. The child gets SIGTERM when this process dies.
// One that ends by itself with an error at each of several starts in a row will not do better: it
// is left, and the log says so.
class LocalWorker {
 public:
  // `command`: program and arguments.
  explicit LocalWorker(std::vector<std::string> command);
  ~LocalWorker();

  // Ends the child and waits for it, at most about a second. Idempotent.
  void Stop();
  // Its process id; 0 while it is not running.
  pid_t pid() const;
  bool gave_up() const;

 private:
  void Supervise();
  pid_t Spawn() const;

  const std::vector<std::string> command_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // Guarded by mutex_.
  pid_t pid_ = 0;          // Guarded by mutex_.
  bool gave_up_ = false;   // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace fettle
