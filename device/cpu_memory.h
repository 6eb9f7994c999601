// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "device/device.h"

namespace fettle {

class CpuShadow;  // cpu_checker.h

// Memory of the cpu device. Every allocation has an address range of 4 GiB or more to itself, with
// unmapped pages around it, so that a stray access faults and its address names the allocation.
class CpuBuffer final : public DeviceBuffer {
 public:
  // Allocates `size_bytes`, zeroed. `page_end`: the last byte, rounded up to `alignment`, is
  // followed by an unmapped page; else the address is a multiple of 4096. kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CpuBuffer>> Create(std::int64_t size_bytes, bool page_end,
                                                           std::int64_t alignment);
  ~CpuBuffer() override;
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  // The live buffer whose range holds the address (which may lie outside of its bytes), or null.
  // Async-signal-safe.
  static CpuBuffer* Owner(std::uintptr_t address);

  std::uint64_t address() const override { return address_; }
  std::int64_t size_bytes() const override { return size_; }
  std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(address_); }

  // Checking: what kernels may touch and what is known of it.
  void SetPayload(std::int64_t offset, std::int64_t size_bytes);
  void Annotate(const BufferNote& note);
  std::uintptr_t payload_begin() const { return payload_begin_; }
  std::uintptr_t payload_end() const { return payload_end_; }
  bool read_only() const { return read_only_; }
  // One byte per payload byte, 0 until it is written; empty when all are initialised.
  std::vector<std::uint8_t>& initialised() { return initialised_; }
  // The host wrote [offset, offset + size) of the allocation.
  void MarkWritten(std::int64_t offset, std::int64_t size_bytes);
  std::unique_ptr<CpuShadow>& shadow() { return shadow_; }

  // "buffer 'y'", "dynamic shared memory".
  std::string Name() const;
  void SetName(std::string name) { name_ = std::move(name); }
  // "buffer 'y' (4096 bytes): offset 4096, 0 bytes past the end".
  std::string DescribeOutside(std::uintptr_t address) const;

 private:
  CpuBuffer() = default;

  std::uintptr_t address_ = 0, payload_begin_ = 0, payload_end_ = 0;
  std::int64_t size_ = 0;
  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  std::size_t first_slot_ = 0, slot_count_ = 0;
  std::string name_;
  bool read_only_ = false;
  std::vector<std::uint8_t> initialised_;
  std::unique_ptr<CpuShadow> shadow_;
};

}  // namespace fettle
