// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/device.h"

namespace fettle {

// While one exists, the calling thread is in code of ours that must not be left from a signal
// handler: it may hold a lock or be allocating.
class RuntimeGuard {
 public:
  RuntimeGuard() { ++depth_; }
  ~RuntimeGuard() { --depth_; }
  RuntimeGuard(const RuntimeGuard&) = delete;
  RuntimeGuard& operator=(const RuntimeGuard&) = delete;
  static bool Active() { return depth_ > 0; }
  // For the begin of a block: an abandoned kernel leaves its guards behind.
  static void Clear() { depth_ = 0; }

 private:
  static inline thread_local int depth_ = 0;
};

// Findings of launches, each place once, at most kMost. Thread-safe.
class CpuFindings {
 public:
  static constexpr std::size_t kMost = 64;

  // `key` tells places apart within a kind.
  void Add(CheckFinding finding, const std::string& key) {
    const RuntimeGuard guard;
    const std::lock_guard lock(mutex_);
    if (finding.file.empty() && finding.line > 0) finding.file = file_;
    if (found_.size() >= kMost || !seen_.insert(finding.kind + "|" + key).second) return;
    found_.push_back(std::move(finding));
  }
  // The kernel's own file, for findings that know only their line.
  void SetFile(const std::string& file) {
    const std::lock_guard lock(mutex_);
    file_ = file;
  }
  std::vector<CheckFinding> Take() {
    const std::lock_guard lock(mutex_);
    seen_.clear();
    return std::exchange(found_, {});
  }
  // The newest finding; empty kind: none.
  CheckFinding Last() {
    const std::lock_guard lock(mutex_);
    return found_.empty() ? CheckFinding{} : found_.back();
  }

 private:
  std::mutex mutex_;
  std::string file_;                 // Guarded by mutex_.
  std::set<std::string> seen_;       // Guarded by mutex_.
  std::vector<CheckFinding> found_;  // Guarded by mutex_.
};

}  // namespace fettle
