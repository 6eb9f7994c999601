// SPDX-License-Identifier: Apache-2.0
#include "device/guarded_buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::int64_t kNaturalAlign = 256;

std::int64_t RoundUp(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// "12 bytes changed from 64 past the end", or nothing.
std::string DescribeChange(std::span<const std::uint8_t> want, std::span<const std::uint8_t> got,
                           bool before) {
  std::int64_t changed = 0, nearest = -1;
  const auto size = static_cast<std::int64_t>(want.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(before ? size - 1 - i : i);
    if (want[at] == got[at]) continue;
    if (changed++ == 0) nearest = before ? i + 1 : i;
  }
  if (changed == 0) return "";
  return fmt::format("{} bytes changed from {} {}", changed, nearest,
                     before ? "before the start" : "past the end");
}

}  // namespace

absl::StatusOr<GuardedBuffer> GuardedBuffer::Allocate(Device& device, DType dtype,
                                                      std::int64_t size_bytes, std::int64_t align,
                                                      const GuardOptions& options) {
  GuardedBuffer result;
  result.device_ = &device;
  result.dtype_ = dtype;
  result.size_ = size_bytes;
  result.key_ = options.key;
  result.patterns_ = options.patterns;
  if (options.placement == Placement::kPageEnd && size_bytes > 0) {
    // The contract's alignment must hold; where it gives none, kernels may count on 16-byte
    // vectors.
    const std::int64_t need = align > 0 ? align : std::max<std::int64_t>(16, SizeOf(dtype));
    if (std::has_single_bit(static_cast<std::uint64_t>(need)) && size_bytes % need == 0) {
      auto buffer = device.AllocatePageEnd(size_bytes, need);
      if (buffer.ok()) {
        result.buffer_ = *std::move(buffer);
        result.at_page_end_ = true;
        return result;
      }
      if (!absl::IsUnimplemented(buffer.status())) return buffer.status();
    }
  }
  if (options.guard_bytes == 0 && align <= kNaturalAlign) {
    FETTLE_ASSIGN_OR_RETURN(result.buffer_, device.Allocate(size_bytes));
    device.SetPayload(*result.buffer_, 0, size_bytes);
    return result;
  }
  const std::int64_t step = std::max(kNaturalAlign, align);
  std::int64_t offset = RoundUp(options.guard_bytes, step);
  if (options.placement == Placement::kMisaligned && align > 0 && align < kNaturalAlign) {
    offset += align;  // A multiple of `align` and of no larger power of two.
  }
  if (options.placement == Placement::kScattered || options.placement == Placement::kPageEnd) {
    offset += static_cast<std::int64_t>(options.place % kScatterPlaces) * step;
  }
  FETTLE_ASSIGN_OR_RETURN(result.buffer_,
                          device.Allocate(step + offset + size_bytes + options.guard_bytes));
  // The device promises 256 bytes; larger alignments are made here.
  const auto base =
      static_cast<std::int64_t>(result.buffer_->address() % static_cast<std::uint64_t>(step));
  result.offset_ = offset + (step - base) % step;
  device.SetPayload(*result.buffer_, result.offset_, size_bytes);
  FETTLE_RETURN_IF_ERROR(result.WriteGuards());
  return result;
}

absl::Status GuardedBuffer::Write(std::span<const std::uint8_t> bytes) {
  FETTLE_CHECK(static_cast<std::int64_t>(bytes.size()) == size_);
  if (size_ == 0) return absl::OkStatus();
  return device_->CopyIn(*buffer_, offset_, bytes);
}

absl::Status GuardedBuffer::Read(std::span<std::uint8_t> bytes) const {
  FETTLE_CHECK(static_cast<std::int64_t>(bytes.size()) == size_);
  if (size_ == 0) return absl::OkStatus();
  return device_->CopyOut(*buffer_, offset_, bytes);
}

absl::Status GuardedBuffer::Fill(std::uint8_t byte) {
  if (size_ == 0) return absl::OkStatus();
  return device_->Fill(*buffer_, offset_, size_, byte);
}

std::vector<GuardBand> GuardedBuffer::bands() const {
  std::vector<GuardBand> bands;
  if (offset_ > 0) bands.push_back({0, offset_, /*stream=*/1});
  if (tail() > 0) bands.push_back({offset_ + size_, tail(), /*stream=*/2});
  return bands;
}

absl::Status GuardedBuffer::WriteGuards() {
  for (const GuardBand& band : bands()) {
    if (patterns_ != nullptr) {
      FETTLE_RETURN_IF_ERROR(
          patterns_->Write(dtype_, band.stream, *buffer_, band.offset, band.size_bytes));
    } else {
      FETTLE_RETURN_IF_ERROR(device_->CopyIn(
          *buffer_, band.offset, GuardPattern(dtype_, key_, band.stream, band.size_bytes)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> GuardedBuffer::CheckGuards() const {
  std::string text;
  for (const GuardBand& band : bands()) {
    std::vector<std::uint8_t> got(static_cast<std::size_t>(band.size_bytes));
    FETTLE_RETURN_IF_ERROR(device_->CopyOut(*buffer_, band.offset, got));
    const std::string change =
        DescribeChange(GuardPattern(dtype_, key_, band.stream, band.size_bytes), got,
                       /*before=*/band.stream == 1);
    if (!change.empty()) text += (text.empty() ? "" : ", ") + change;
  }
  if (text.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

}  // namespace fettle
