// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "device/case_buffers.h"
#include "device/device.h"
#include "device/guard_patterns.h"
#include "device/runner_session.h"
#include "verifier/case_inputs.h"

namespace fettle {

// Carries out RunRequests on one device, inside the runner process: makes inputs, poisons outputs
// and workspace, calls the kernel, reads everything back and looks for changes that no kernel may
// make. It never sees expected data. Keeps the last buffers for `reuse_buffers`. Not thread-safe;
// must not outlive the device.
class CaseRunner {
 public:
  // `guard_key` should be fresh per process.
  CaseRunner(Device& device, std::uint64_t guard_key)
      : device_(device), guard_key_(guard_key), patterns_(device, guard_key), inputs_(device) {}

  // Errors: those of device.h, of PreparedCall::Create and of MakeInputs.
  absl::StatusOr<RunObservation> Run(const RunRequest& request, DeviceModule& module);

  // Frees the kept buffers.
  void Clear();

  // RunnerSession::FetchOutputs, of the last Run.
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> Fetch(
      const std::vector<std::vector<std::int64_t>>& rows);

  // Inputs on this runner's device, kept for later calls; also what timing takes its inputs from.
  CaseInputCache& inputs() { return inputs_; }

 private:
  absl::Status PrepareBuffers(const RunRequest& request);
  absl::StatusOr<std::unique_ptr<CaseBuffers>> AllocateBuffers(const RunRequest& request);

  Device& device_;
  std::uint64_t guard_key_;
  std::uint64_t allocations_ = 0;  // Each with other places.
  GuardPatterns patterns_;
  CaseInputCache inputs_;
  std::unique_ptr<CaseBuffers> buffers_;
  std::string layout_;  // Of buffers_: what must be equal for reuse.
  std::shared_ptr<const CaseInputCache::Entry> written_;  // In buffers_; null: unknown.
  std::vector<std::string> output_digests_;               // Of what the last call left.
};

}  // namespace fettle
