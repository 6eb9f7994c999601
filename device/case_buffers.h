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
#include "device/guarded_buffer.h"

namespace fettle {

inline constexpr std::uint8_t kPaddingByte = 0xA5;     // Of integer inputs.
inline constexpr std::uint8_t kPaddingNanByte = 0xFF;  // Of float inputs: NaN.

// The device memory of one case under one plan: tensors, workspace, pointer tables and pristine
// copies of inout tensors. Must not outlive its device. Errors are those of device.h.
class CaseBuffers {
 public:
  static absl::StatusOr<CaseBuffers> Allocate(Device& device, const BoundCase& bound_case,
                                              const std::vector<BoundWorkspace>& workspace,
                                              const GuardOptions& options);

  const BoundCase& bound_case() const { return case_; }
  // Bytes allocated in all.
  std::int64_t size_bytes() const;

  // Writes the dense bytes of input tensor `index`; padding gets NaN or 0xA5. For an inout tensor
  // the content is also what Restore brings back, and `touched` lists the rows that it rewrites
  // (nothing: all of them).
  absl::Status WriteInput(std::int64_t index, std::span<const std::uint8_t> dense,
                          std::optional<std::vector<std::int64_t>> touched = std::nullopt);
  // Fills every pure output, padding included, in stream order.
  absl::Status FillOutputs(std::uint8_t byte);
  absl::Status FillWorkspace(std::uint8_t byte);
  // Tells the checking runtime what each buffer is; call after all contents were written.
  void Annotate();
  // Brings inout tensors back to their content of WriteInput, in stream order.
  absl::Status Restore();

  // Bytes of tensor `index` as they lie in memory.
  absl::StatusOr<std::vector<std::uint8_t>> ReadMemory(std::int64_t index) const;
  // The same, dense.
  absl::StatusOr<std::vector<std::uint8_t>> ReadDense(std::int64_t index) const;

  // A digest of tensor `index` as it lies in memory, taken on the device where it can, else from
  // the bytes; comparable between equal keys only. Empty for a null tensor.
  absl::StatusOr<std::string> DigestMemory(std::int64_t index, std::uint64_t key,
                                           std::chrono::nanoseconds limit) const;

  // The same of every tensor that is read only; empty strings for the others, in case order.
  absl::StatusOr<std::vector<std::string>> DigestInputs(std::uint64_t key,
                                                        std::chrono::nanoseconds limit) const;

  // Changes in guards of tensors, workspace and pointer tables, and in the tables themselves:
  // "y: 12 bytes changed from 64 past the end"; nothing when all are intact.
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
  struct Saved {
    std::int64_t tensor = 0;
    std::unique_ptr<DeviceBuffer> copy;
    // Byte ranges (offset, size) of the layout that Restore rewrites.
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  };
  static std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }
  absl::Status MakeTables();
  absl::Status Save(std::int64_t index, std::span<const std::uint8_t> memory,
                    const std::optional<std::vector<std::int64_t>>& touched);

  Device* device_ = nullptr;
  BoundCase case_;
  std::vector<BoundWorkspace> workspace_spec_;
  GuardOptions options_;
  std::vector<std::unique_ptr<GuardedBuffer>> tensors_, workspace_, tables_;
  std::vector<Saved> saved_;
};

}  // namespace fettle
