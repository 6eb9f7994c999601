// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include <absl/status/statusor.h>

#include "device/device.h"

namespace fettle {

struct CpuDeviceOptions {
  int threads = 0;  // Workers; 0: one per core that this process may use.
  // After that time a launch ends with kDeadlineExceeded; 0: never.
  std::chrono::nanoseconds launch_limit = std::chrono::seconds(10);
};

// The processors of this machine as a device that runs modules of the cpu compiler.
//
// Fast modules run blocks on all workers. A fault inside a kernel comes back as kAborted with what
// was hit, an endless loop as kDeadlineExceeded; the object is unusable afterwards. Check modules
// run on the calling thread; what they do wrong is a finding, Launch returns OK even when it had to
// abandon the kernel, and only kDeadlineExceeded makes the object unusable. A program that makes a
// CpuDevice must link fettle::cpu_device_exports.
class CpuDevice : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Create(const CpuDeviceOptions& options);

  virtual void SetLaunchLimit(std::chrono::nanoseconds limit) = 0;
  // Bumped per fiber switch of the last launch; for benchmarks.
  virtual std::uint64_t switches() const = 0;
};

}  // namespace fettle
