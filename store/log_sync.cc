// SPDX-License-Identifier: Apache-2.0
#include "store/log_sync.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {

absl::StatusOr<std::unique_ptr<LogSync>> LogSync::Start(const std::filesystem::path& log,
                                                        BeforeSync before_sync) {
  Fd fd(open(log.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "open " + log.string());
  return std::unique_ptr<LogSync>(new LogSync(std::move(fd), std::move(before_sync)));
}

LogSync::LogSync(Fd log, BeforeSync before_sync)
    : log_(std::move(log)), before_sync_(std::move(before_sync)), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "log-sync");
}

LogSync::~LogSync() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void LogSync::Committed() {
  {
    const std::lock_guard lock(mutex_);
    ++committed_;
  }
  work_.notify_one();
}

absl::Status LogSync::Wait() {
  std::unique_lock lock(mutex_);
  const std::int64_t number = committed_;
  done_.wait(lock, [&] { return synced_ >= number || !status_.ok(); });
  return synced_ >= number ? absl::OkStatus() : status_;
}

void LogSync::Then(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    if (synced_ < committed_ || acting_ || !actions_.empty()) {
      actions_.emplace_back(committed_, std::move(action));
      return;
    }
  }
  action();
}

void LogSync::Flush() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return actions_.empty() && !acting_; });
}

absl::Status LogSync::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void LogSync::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || (synced_ < committed_ && status_.ok()); });
    if (synced_ == committed_ || !status_.ok()) return;  // Stopping, and nothing is left to do.
    const std::int64_t target = committed_;
    lock.unlock();
    absl::Status synced = before_sync_ ? before_sync_() : absl::OkStatus();
    if (synced.ok() && fdatasync(log_.get()) != 0) synced = ErrnoStatus(errno, "sync the log");
    lock.lock();
    if (!synced.ok()) {
      status_ = absl::InternalError(
          fmt::format("the database's log did not reach the disk, so nothing more is stored until "
                      "the server starts again: {}",
                      StatusText(synced)));
      actions_.clear();
      done_.notify_all();
      continue;
    }
    synced_ = target;
    done_.notify_all();
    acting_ = true;
    while (!actions_.empty() && actions_.front().first <= synced_) {
      const std::function<void()> action = std::move(actions_.front().second);
      actions_.pop_front();
      lock.unlock();
      action();
      lock.lock();
    }
    acting_ = false;
    done_.notify_all();
  }
}

}  // namespace fettle
