// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the runner does to itself before candidate code is loaded. Runner side; single-threaded
// until said otherwise.

#include <cstdint>
#include <string>

#include <absl/status/status.h>

namespace fettle {

struct LockdownOptions {
  // Private writable memory; 0: no limit (GPU drivers reserve far more than they use).
  std::int64_t memory_bytes = 0;
  std::int64_t cpu_seconds = 3600;
  // Candidate code runs in this process (cpu): no new process and no file from the final filter on.
  // Otherwise only what a driver never needs is forbidden.
  bool hosts_candidate = true;
};

// Whether this kernel can filter system calls, and make namespaces without privilege.
bool SeccompAvailable();
bool NamespacesAvailable();

// Enters fresh user, pid, network, ipc and uts namespaces and hides places where others leave
// files. Returns in a child; the processes above it wait, pass on how it ended as exit code 128 +
// signal, and never return. Call first in main.
absl::Status EnterNamespaces();

// rlimits, no_new_privs, not dumpable, die with the parent.
absl::Status ApplyLimits(const LockdownOptions& options);

// The final filter, after the device and its threads exist. A forbidden call that no kernel needs
// (fork, execve, socket, ptrace, ...) kills the process with SIGSYS; an unknown one fails with
// EPERM. A no-op returning OK where seccomp is missing.
absl::Status ApplyFinalFilter(const LockdownOptions& options);

}  // namespace fettle
