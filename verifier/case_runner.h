// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "device/case_buffers.h"
#include "device/device.h"
#include "device/runner_session.h"

namespace fettle {

// Carries out RunRequests on one device, inside the runner process: makes inputs, poisons outputs
// and workspace, calls the kernel, reads everything back and looks for changes that no kernel may
// make. It never sees expected data. Keeps the last buffers for `reuse_buffers`. Not thread-safe;
// must not outlive the device.
class CaseRunner {
 public:
  // `guard_key` should be fresh per process.
  CaseRunner(Device& device, std::uint64_t guard_key) : device_(device), guard_key_(guard_key) {}

  // Errors: those of device.h, of PreparedCall::Create and of MakeInputs.
  absl::StatusOr<RunObservation> Run(const RunRequest& request, DeviceModule& module);

  // Frees the kept buffers.
  void Clear();

 private:
  absl::Status PrepareBuffers(const RunRequest& request);
  // Makes the inputs, unless they are those of the last call, and writes them, unless they already
  // lie in the buffers (`in_place`: the buffers are those of the last call).
  absl::StatusOr<const std::vector<std::vector<std::uint8_t>>*> PrepareInputs(
      const RunRequest& request, bool in_place);

  Device& device_;
  std::uint64_t guard_key_;
  std::unique_ptr<CaseBuffers> buffers_;
  std::string layout_;  // Of buffers_: what must be equal for reuse.
  struct MadeInputs {
    std::string key;  // What they were made from.
    std::vector<std::vector<std::uint8_t>> tensors;
  };
  std::list<MadeInputs> made_;  // The latest first.
  std::string written_key_;     // The same of what lies in buffers_; empty: unknown.
};

// Rows of inout tensor `index` that the operator may change (Restore::touched...), or nothing when
// all may change. `inputs` is what MakeInputs returned.
std::optional<std::vector<std::int64_t>> TouchedRows(
    const BoundCase& bound_case, std::int64_t index,
    const std::vector<std::vector<std::uint8_t>>& inputs);

}  // namespace fettle
