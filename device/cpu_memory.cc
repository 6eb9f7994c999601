// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_memory.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "device/cpu_checker.h"

namespace fettle {
namespace {

// The address space is a resource of the process, so its map is too. 32 TiB from an address that is
// above the sanitizers' shadow memory and below where programs and libraries are put.
constexpr std::uintptr_t kBase = 0x200000000000;
constexpr unsigned kSlotShift = 32;
constexpr std::size_t kSlots = 8192;
constexpr std::size_t kPage = 4096;

std::atomic<CpuBuffer*> slots[kSlots];
std::mutex slots_mutex;
std::size_t next_slot = 0;  // Guarded by slots_mutex.

std::size_t RoundUp(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Finds `count` free slots in a row and gives them to `owner`; kSlots: there are none.
std::size_t TakeSlots(std::size_t count, CpuBuffer* owner) {
  const std::lock_guard lock(slots_mutex);
  for (std::size_t tried = 0, run = 0, at = next_slot; tried < kSlots + count; ++tried, ++at) {
    if (at == kSlots) at = run = 0;
    run = slots[at].load(std::memory_order_relaxed) == nullptr ? run + 1 : 0;
    if (run < count) continue;
    const std::size_t first = at + 1 - count;
    for (std::size_t i = first; i <= at; ++i) slots[i].store(owner, std::memory_order_release);
    next_slot = at + 1 == kSlots ? 0 : at + 1;
    return first;
  }
  return kSlots;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuBuffer>> CpuBuffer::Create(std::int64_t size_bytes, bool page_end,
                                                             std::int64_t alignment) {
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(fmt::format("allocate {} bytes: negative size", size_bytes));
  }
  if (size_bytes > std::int64_t{1} << 42) {
    return absl::ResourceExhaustedError(fmt::format("allocate {} bytes: too many", size_bytes));
  }
  const std::size_t size = static_cast<std::size_t>(size_bytes);
  const std::size_t data = RoundUp(std::max<std::size_t>(size, 1), kPage);
  std::unique_ptr<CpuBuffer> buffer(new CpuBuffer);
  buffer->size_ = size_bytes;
  buffer->slot_count_ = (data + 2 * kPage + (std::size_t{1} << kSlotShift)) >> kSlotShift;
  buffer->first_slot_ = TakeSlots(buffer->slot_count_, buffer.get());
  if (buffer->first_slot_ == kSlots) {
    buffer->slot_count_ = 0;
    return absl::ResourceExhaustedError(
        fmt::format("allocate {} bytes: more than {} allocations", size_bytes, kSlots));
  }
  // [unmapped page][data][unmapped page]; the rest of the range stays unmapped too.
  void* want = reinterpret_cast<void*>(kBase + (buffer->first_slot_ << kSlotShift));
  void* map = mmap(want, data + 2 * kPage, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("allocate {} bytes: {}", size_bytes, std::strerror(errno)));
  }
  buffer->map_ = map;
  buffer->map_bytes_ = data + 2 * kPage;
  if (mprotect(static_cast<char*>(map) + kPage, data, PROT_READ | PROT_WRITE) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("allocate {} bytes: {}", size_bytes, std::strerror(errno)));
  }
  buffer->address_ = reinterpret_cast<std::uintptr_t>(map) + kPage;
  if (page_end) {
    buffer->address_ += data - RoundUp(size, static_cast<std::size_t>(alignment));
  }
  buffer->SetPayload(0, size_bytes);
  return buffer;
}

CpuBuffer::~CpuBuffer() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
  for (std::size_t i = 0; i < slot_count_; ++i) slots[first_slot_ + i].store(nullptr);
}

CpuBuffer* CpuBuffer::Owner(std::uintptr_t address) {
  const std::uintptr_t slot = (address - kBase) >> kSlotShift;
  return address >= kBase && slot < kSlots ? slots[slot].load(std::memory_order_acquire) : nullptr;
}

void CpuBuffer::SetPayload(std::int64_t offset, std::int64_t size_bytes) {
  payload_begin_ = address_ + static_cast<std::uintptr_t>(offset);
  payload_end_ = payload_begin_ + static_cast<std::uintptr_t>(size_bytes);
  initialised_.clear();
  shadow_.reset();
}

void CpuBuffer::Annotate(const BufferNote& note) {
  name_ = note.name;
  read_only_ = note.read_only;
  if (note.initialised) {
    initialised_.clear();
  } else {
    initialised_.assign(payload_end_ - payload_begin_, 0);
  }
}

void CpuBuffer::MarkWritten(std::int64_t offset, std::int64_t size_bytes) {
  if (initialised_.empty() || size_bytes == 0) return;
  const std::uintptr_t begin =
      std::max(address_ + static_cast<std::uintptr_t>(offset), payload_begin_);
  const std::uintptr_t end =
      std::min(address_ + static_cast<std::uintptr_t>(offset + size_bytes), payload_end_);
  if (begin < end) std::memset(initialised_.data() + (begin - payload_begin_), 1, end - begin);
}

std::string CpuBuffer::Name() const {
  return name_.empty() ? std::string("a buffer without a name") : fmt::format("buffer '{}'", name_);
}

std::string CpuBuffer::DescribeOutside(std::uintptr_t address) const {
  const std::int64_t size = static_cast<std::int64_t>(payload_end_ - payload_begin_);
  const std::int64_t offset =
      static_cast<std::int64_t>(address) - static_cast<std::int64_t>(payload_begin_);
  return fmt::format("{} ({} bytes): offset {}, {} bytes {}", Name(), size, offset,
                     offset < 0 ? -offset : offset - size,
                     offset < 0 ? "before the start" : "past the end");
}

}  // namespace fettle
