// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts the runner where candidate code can do no harm: own user, pid, network and ipc namespaces,
// a read-only view of the libraries it needs, an empty environment, its own process group.
// The runner adds rlimits and system call filters itself (worker/lockdown.h).

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>
#include <sys/types.h>

#include "worker/channel.h"

namespace fettle {

struct SandboxOptions {
  std::string runner_path;               // fettle-runner.
  std::vector<std::string> runner_args;  // "--device", "cpu".
  // Put before the runner, inside the sandbox: an emulator. What it needs beyond /usr is bound
  // below.
  std::vector<std::string> wrapper;
  std::vector<std::string> read_only_binds;  // Further host paths, shown at the same place.
  std::vector<std::string> device_binds;     // Device nodes ("/dev/nvidia0"); missing ones skipped.
  std::vector<std::string> environment;      // "NAME=value"; nothing else is set.
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // Whole sandbox; watched, and a limit on cpu.
  std::int64_t threads = 1024;                        // Whole sandbox; watched.
  bool use_bubblewrap = true;                         // Tests of the fallback turn it off.
};

// What this machine offers.
struct SandboxLevel {
  bool bubblewrap = false;  // Namespaces through bubblewrap.
  bool namespaces = false;  // Namespaces through unshare, in the runner itself.
  bool seccomp = false;
  std::string missing;  // What is missing and how to get it; empty when nothing is.
  // "bubblewrap+seccomp", "unshare+seccomp", "seccomp", "rlimits".
  std::string name() const;
};

// Probes once per process; later calls are free. Thread-safe.
const SandboxLevel& sandbox_level();

// How a process ended.
struct ProcessEnd {
  int exit_code = 0;  // Valid when signal == 0.
  int signal = 0;
  std::string Describe() const;  // "SIGSEGV (segmentation fault)", "exit code 3".
};
struct SandboxUsage {
  std::int64_t memory_bytes = 0;  // Resident, and in memory files.
  std::int64_t threads = 0;
};
// "SIGSEGV" and so on; "signal 77" where the name is unknown.
std::string SignalName(int signal);

// A sandboxed process with a channel to it. Thread-safe.
class SandboxedProcess {
 public:
  // kUnavailable: the runner or bubblewrap cannot be started.
  static absl::StatusOr<std::unique_ptr<SandboxedProcess>> Start(const SandboxOptions& options);
  // Kills and reaps everything.
  ~SandboxedProcess();

  int channel() const { return channel_.get(); }
  pid_t pid() const { return pid_; }
  // Set once the process has been reaped.
  std::optional<ProcessEnd> end() const;
  // Waits up to `limit` for the process to end by itself.
  std::optional<ProcessEnd> WaitEnd(std::chrono::milliseconds limit);
  // SIGKILL to all of it; returns when the process has been reaped.
  void Kill();
  // What every process of the sandbox holds together; zeros where it cannot be read.
  SandboxUsage Usage() const;

 private:
  SandboxedProcess() = default;
  void Own(std::vector<std::string> command, std::vector<std::string> environment,
           int child_socket);

  UniqueFd channel_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;           // Guarded by mutex_.
  int spawn_error_ = 0;            // Guarded by mutex_.
  std::optional<ProcessEnd> end_;  // Guarded by mutex_.
  pid_t pid_ = -1;                 // Written once before Start returns.
  // Spawns and waits: the kernel ties the child's life to the thread that started it.
  std::thread owner_;
};

}  // namespace fettle
