// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

namespace fettle {

// Turns signals inside a kernel into the end of its launch: SIGSEGV, SIGBUS, SIGFPE and SIGILL
// become a finding that says what was hit, and the launch is abandoned. Signals elsewhere end the
// process as usual. Installed once per process; a thread that runs kernels needs a FaultStack.
void InstallFaultHandlers();

// The alternate signal stack of one thread that runs kernels: a fault may be a full fiber stack.
class FaultStack {
 public:
  FaultStack();
  ~FaultStack();
  FaultStack(const FaultStack&) = delete;
  FaultStack& operator=(const FaultStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

// Abandons what runs in kernels on all worker threads when the time is up, however they loop. One
// launch of a process at a time can have one; where timers are missing it does nothing.
class LaunchDeadline {
 public:
  explicit LaunchDeadline(std::chrono::nanoseconds limit);
  ~LaunchDeadline();
  LaunchDeadline(const LaunchDeadline&) = delete;
  LaunchDeadline& operator=(const LaunchDeadline&) = delete;
  // The latest one's time was up.
  static bool Expired();

 private:
  bool armed_ = false;
};

// Announces the calling thread as one that runs kernels, so that a deadline reaches it.
void RegisterKernelThread();
void UnregisterKernelThread();

}  // namespace fettle
