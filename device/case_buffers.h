// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/case_images.h"
#include "device/guarded_buffer.h"

namespace fettle {

// What a call left in memory, as digests that compare between equal keys only.
struct CaseDigests {
  // Of each tensor that is read only, as it lies in memory; empty strings for the others.
  std::vector<std::string> inputs;
  // Of each output (out and inout tensors that are not null, in case order) as it lies in memory,
  // without the padding.
  std::vector<std::string> outputs;
  // Changes in guards of tensors, workspace and pointer tables, and in the tables themselves: "y:
  // 12 bytes changed from 64 past the end"; nothing when all are intact.
  std::optional<std::string> guard_violation;
};
// What of it to look at.
struct Looks {
  bool inputs = false, outputs = false, guards = false;
};

// The device memory of one case under one plan: tensors, workspace and pointer tables. Must
// not outlive its device. Errors are those of device.h.
class CaseBuffers {
 public:
  static absl::StatusOr<CaseBuffers> Allocate(Device& device, const BoundCase& bound_case,
                                              const std::vector<BoundWorkspace>& workspace,
                                              const GuardOptions& options);

  const BoundCase& bound_case() const { return case_; }
  // Bytes allocated in all.
  std::int64_t size_bytes() const;

  // Writes every input, in stream order, but for those that `but` (by tensor) leaves to the caller.
  // Those of inout tensors are also what Restore brings back.
  absl::Status WriteInputs(std::shared_ptr<const CaseImages> images,
                           const std::vector<bool>& but = {});
  // Fills every pure output, padding included, in stream order.
  absl::Status FillOutputs(std::uint8_t byte);
  absl::Status FillWorkspace(std::uint8_t byte);
  // Tells the checking runtime what each buffer is; call after all contents were written.
  void Annotate();
  // Brings inout tensors back to their content of WriteInputs, in stream order.
  absl::Status Restore();

  // Bytes of tensor `index` as they lie in memory.
  absl::StatusOr<std::vector<std::uint8_t>> ReadMemory(std::int64_t index) const;
  // The same, dense.
  absl::StatusOr<std::vector<std::uint8_t>> ReadDense(std::int64_t index) const;

  // Everything at once: one wait for the device where it takes digests, else from the bytes.
  absl::StatusOr<CaseDigests> Digests(const Looks& looks, std::uint64_t key,
                                      std::chrono::nanoseconds limit) const;
  // What changed in the guards, from their bytes: as CaseDigests::guard_violation.
  absl::StatusOr<std::optional<std::string>> CheckGuards() const;
  absl::Status WriteGuards();
  // Whether every non-empty output ends at an unmapped page.
  bool at_page_end() const;

  // Device addresses; a null tensor's is 0. `offset` in elements.
  std::uint64_t TensorAddress(std::int64_t index, std::int64_t offset = 0) const;
  std::uint64_t WorkspaceAddress(std::int64_t index, std::int64_t offset = 0) const;
  // Of the table in device memory; 0 for an empty one. The member addresses: PointerAddresses.
  std::uint64_t TableAddress(std::int64_t index) const;
  std::vector<std::uint64_t> PointerAddresses(std::int64_t index) const;

  // Nullptr for a null tensor.
  GuardedBuffer* tensor(std::int64_t index) { return tensors_[Index(index)].get(); }
  GuardedBuffer& workspace(std::int64_t index) { return *workspace_[Index(index)]; }

 private:
  static std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }
  absl::Status MakeTables();
  absl::StatusOr<CaseDigests> DigestsOfBytes(const Looks& looks) const;
  absl::StatusOr<std::optional<std::string>> CheckTables() const;
  // Every buffer there is, with its name.
  std::vector<std::pair<const GuardedBuffer*, std::string>> AllBuffers() const;

  Device* device_ = nullptr;
  BoundCase case_;
  std::vector<BoundWorkspace> workspace_spec_;
  GuardOptions options_;
  std::vector<std::unique_ptr<GuardedBuffer>> tensors_, workspace_, tables_;
  std::shared_ptr<const CaseImages> written_;
};

}  // namespace fettle
