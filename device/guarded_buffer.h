// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/dtype.h"
#include "device/device.h"
#include "device/guard_patterns.h"
#include "device/runner_session.h"

namespace fettle {

inline constexpr std::int64_t kDefaultGuardBytes = 64 * 1024;
inline constexpr std::uint64_t kScatterPlaces = 256;  // 64 KiB where the alignment is 256 bytes.

struct GuardOptions {
  Placement placement = Placement::kGuarded;
  // Each side; a multiple of 256. 0: an allocation of exactly the payload's size.
  std::int64_t guard_bytes = kDefaultGuardBytes;
  std::uint64_t key = 0;  // Of the guard pattern; fresh per process.
  // kScattered: which of kScatterPlaces places, a multiple of its alignment apart, the payload
  // takes (modulo their number). CaseBuffers: random; each buffer of the call gets another one from
  // it.
  std::uint64_t place = 0;
  // Of the same device and key; writes the bands on the device. Null: from the host. Must outlive
  // the buffer.
  GuardPatterns* patterns = nullptr;
};

// One guard within the allocation.
struct GuardBand {
  std::int64_t offset = 0, size_bytes = 0;
  std::uint64_t stream = 1;  // 1: before the payload, 2: behind it.
};

// One payload in device memory between two guard bands, which hold a keyed pattern that reads as
// NaN for floats. The payload ends flush with the guard behind it. Must not outlive its device.
class GuardedBuffer {
 public:
  // `align` is the contract's alignment in bytes (0: the device's own). kGuarded places the payload
  // at a multiple of max(256, align), kMisaligned at a multiple of `align` and of no more (only
  // where the contract gives one below 256, otherwise as kGuarded), kScattered as kGuarded and up
  // to kScatterPlaces - 1 such multiples further. kPageEnd falls back to kScattered where the
  // device cannot, or the size is no multiple of the alignment; see at_page_end().
  static absl::StatusOr<GuardedBuffer> Allocate(Device& device, DType dtype,
                                                std::int64_t size_bytes, std::int64_t align,
                                                const GuardOptions& options);

  std::uint64_t address() const { return buffer_->address() + static_cast<std::uint64_t>(offset_); }
  std::int64_t size_bytes() const { return size_; }
  bool at_page_end() const { return at_page_end_; }
  DeviceBuffer& buffer() { return *buffer_; }
  const DeviceBuffer& buffer() const { return *buffer_; }
  std::int64_t offset() const { return offset_; }  // Of the payload within buffer().

  absl::Status Write(std::span<const std::uint8_t> bytes);  // The whole payload.
  absl::Status Read(std::span<std::uint8_t> bytes) const;   // The whole payload.
  absl::Status Fill(std::uint8_t byte);

  DType dtype() const { return dtype_; }
  // The guards that are not empty.
  std::vector<GuardBand> bands() const;
  // (Re)writes both guards.
  absl::Status WriteGuards();
  // What changed in the guards since WriteGuards: "12 bytes changed from 64 past the end"; nothing
  // when they are intact.
  absl::StatusOr<std::optional<std::string>> CheckGuards() const;

 private:
  std::int64_t tail() const { return buffer_->size_bytes() - offset_ - size_; }

  Device* device_ = nullptr;
  std::unique_ptr<DeviceBuffer> buffer_;
  DType dtype_ = DType::kU8;
  std::int64_t offset_ = 0, size_ = 0;
  std::uint64_t key_ = 0;
  GuardPatterns* patterns_ = nullptr;
  bool at_page_end_ = false;
};

}  // namespace fettle
