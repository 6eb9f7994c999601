// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "store/files.h"

namespace fettle {

// Brings the log of committed transactions to the disk, as many as there are with one fsync, on a
// thread of its own. Transactions are in the log in the order of their numbers, so that none is on
// the disk without those before it. Thread-safe.
class LogSync {
 public:
  // Called before each fsync; an error counts as its failure. For tests of failing disks.
  using BeforeSync = std::function<absl::Status()>;

  static absl::StatusOr<std::unique_ptr<LogSync>> Start(const std::filesystem::path& log,
                                                        BeforeSync before_sync);
  ~LogSync();  // Syncs what is committed.
  LogSync(const LogSync&) = delete;
  LogSync& operator=(const LogSync&) = delete;

  // Another transaction is in the log. Calls come one after the other, as the commits.
  void Committed();
  // Waits until everything committed by now is on the disk. An error is final: what an fsync failed
  // to write may be lost even where the next one succeeds.
  absl::Status Wait();
  // Calls `action` once everything committed by now is on the disk: at once, or later on the
  // thread, in the order of the calls. Never after an error. Must not block.
  void Then(std::function<void()> action);
  // Waits until every `action` passed so far has been called, or never will be.
  void Flush();
  // OK, or why nothing more reaches the disk.
  absl::Status status() const;

 private:
  LogSync(Fd log, BeforeSync before_sync);
  void Loop();

  const Fd log_;
  const BeforeSync before_sync_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::int64_t committed_ = 0, synced_ = 0;  // Guarded by mutex_. Transactions.
  // Guarded by mutex_. What to call once so many transactions are on the disk.
  std::deque<std::pair<std::int64_t, std::function<void()>>> actions_;
  bool acting_ = false;    // Guarded by mutex_. Actions are being called.
  bool stopping_ = false;  // Guarded by mutex_.
  absl::Status status_;    // Guarded by mutex_.
  std::thread thread_;     // Last.
};

}  // namespace fettle
