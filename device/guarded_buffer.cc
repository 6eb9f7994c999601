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

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

std::int64_t RoundUp(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// One guard element: random bits that read as NaN where the dtype has NaN.
std::uint64_t GuardWord(DType dtype, std::uint64_t random) {
  switch (dtype) {
    case DType::kF64:
      return 0x7FF8000000000000ull | (random & 0x8007FFFFFFFFFFFFull);
    case DType::kF32:
      return 0x7FC00000u | (random & 0x803FFFFFu);
    case DType::kF16:
      return 0x7E00u | (random & 0x81FFu);
    case DType::kBF16:
      return 0x7FC0u | (random & 0x803Fu);
    case DType::kF8E4M3FN:
      return 0x7Fu | (random & 0x80u);
    case DType::kF8E5M2:
      return 0x7Eu | (random & 0x81u);
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
      return 0x80u;
    case DType::kF8E8M0:
      return 0xFFu;
    default:
      return random;
  }
}

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
  result.key_ = Mix(options.key);
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
  const std::int64_t step = std::max(kNaturalAlign, align);
  std::int64_t offset = RoundUp(options.guard_bytes, step);
  if (options.placement == Placement::kMisaligned && align > 0 && align < kNaturalAlign) {
    offset += align;  // A multiple of `align` and of no larger power of two.
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

std::vector<std::uint8_t> GuardedBuffer::Pattern(std::int64_t size, std::uint64_t stream) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  const auto element = static_cast<std::size_t>(SizeOf(dtype_));
  std::uint64_t counter = Mix(key_ ^ stream);
  for (std::size_t at = 0; at < bytes.size(); at += element) {
    const std::uint64_t word = GuardWord(dtype_, Mix(counter++));
    std::memcpy(bytes.data() + at, &word, std::min(element, bytes.size() - at));
  }
  return bytes;
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

absl::Status GuardedBuffer::WriteGuards() {
  if (offset_ > 0) FETTLE_RETURN_IF_ERROR(device_->CopyIn(*buffer_, 0, Pattern(offset_, 1)));
  if (tail() > 0) {
    FETTLE_RETURN_IF_ERROR(device_->CopyIn(*buffer_, offset_ + size_, Pattern(tail(), 2)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> GuardedBuffer::CheckGuards() const {
  std::string text;
  const auto check = [&](std::int64_t at, std::int64_t size, std::uint64_t stream) {
    std::vector<std::uint8_t> got(static_cast<std::size_t>(size));
    FETTLE_RETURN_IF_ERROR(device_->CopyOut(*buffer_, at, got));
    const std::string change = DescribeChange(Pattern(size, stream), got, /*before=*/stream == 1);
    if (!change.empty()) text += (text.empty() ? "" : ", ") + change;
    return absl::OkStatus();
  };
  if (offset_ > 0) FETTLE_RETURN_IF_ERROR(check(0, offset_, 1));
  if (tail() > 0) FETTLE_RETURN_IF_ERROR(check(offset_ + size_, tail(), 2));
  if (text.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

}  // namespace fettle
