// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/blob.h"
#include "core/work_unit.h"
#include "device/device.h"
#include "worker/sanitizer.h"

namespace fettle {

struct UnitRunnerOptions {
  std::string runner_path;  // fettle-runner; empty: beside this program's own binary.
  std::string cache_dir;    // Compile cache and references; empty: a fresh temporary folder.
  std::vector<std::string> device_ids;  // Empty: every device found. "cpu" always exists.
  bool compile_only = false;            // Offers no device; compiles for all targets it can.
  int compile_jobs = 0;                 // 0: one per core.
  // Of the results of one task's reference that are kept in memory; 0: an eighth of the machine's
  // memory, at most 4 GiB.
  std::int64_t reference_memory_bytes = 0;
  // Devices behind emulators (worker/emulators.h), added to the others; empty: none.
  std::string emulators_file;
  std::string compute_sanitizer;  // That program; empty: found (worker/sanitizer.h).
  SanitizeFunction sanitize;      // Of tests: instead of it, and on any device.
};

// Carries out work units on this machine: compile lane, then the device's exclusive lane (DESIGN.md
// 3). The worker process feeds it from the server's stream; `fettle check`, `try` and `verify` use
// it directly.
//
// Thread-safe: Run may be called from several threads; units for one device take turns on its lane
// while others compile (on cpu, compiling waits while a unit is timed).
class UnitRunner {
 public:
  // kUnavailable: fettle-runner or every compiler is missing. kInvalidArgument: the emulators file.
  static absl::StatusOr<std::unique_ptr<UnitRunner>> Create(UnitRunnerOptions options);
  virtual ~UnitRunner() = default;

  virtual std::vector<DeviceInfo> devices() const = 0;
  // [{name, identity, targets}] of the compilers found.
  virtual nlohmann::json compilers() const = 0;

  // Runs one unit to its result. The candidate's failures are in the result; an error means that
  // the unit could not be judged and may be run again (DeviceNsOf says what it took):
  //   kCancelled, kDeadlineExceeded (of the unit, while waiting), kUnavailable (compiler, device or
  //   runner missing), kNotFound (a blob), kInvalidArgument (malformed unit), kResourceExhausted.
  // `progress` gets short lines ("verifying checked/2"); may be empty.
  virtual absl::StatusOr<UnitResult> Run(const WorkUnit& unit, BlobStore& blobs,
                                         const std::function<void(std::string)>& progress,
                                         std::stop_token stop) = 0;

  // What a device was measured to reach, taken now or from the cache folder: {bytes_per_s,
  // cached_bytes_per_s, flops_per_s, flops8_per_s}, 0 where unknown. kNotFound: no such device;
  // kFailedPrecondition: it is emulated.
  virtual absl::StatusOr<nlohmann::json> CeilingsOf(const std::string& device_id,
                                                    std::stop_token stop) = 0;

  // How the devices are now, at once: [{id, model, target, driver, uuid, partition, emulated,
  // health
  // ("ok", "suspect", "quarantined"), load (units that hold it or wait), ceilings, aa}]; the last
  // two (worker/device_reports.h) where they were measured.
  virtual nlohmann::json DeviceStates() = 0;
};

}  // namespace fettle
