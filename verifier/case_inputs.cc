// SPDX-License-Identifier: Apache-2.0
#include "verifier/case_inputs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status_macros.h"
#include "verifier/random.h"

namespace fettle {
namespace {

// Cases alternate between their inputs and changed ones, which are kept whatever their size.
constexpr std::size_t kAlwaysKept = 2;
// Smaller inputs are made here faster than a check of what was drawn takes.
constexpr std::int64_t kDrawFrom = 1 << 18;
constexpr std::int64_t kMostCpuBytes = std::int64_t{128} << 20;
constexpr std::int64_t kMostGpuBytes = std::int64_t{16} << 30;

std::string KeyOf(const Fill& fill) {
  std::uint64_t list = fill.list.size();
  for (const std::int64_t entry : fill.list) {
    list = (list ^ static_cast<std::uint64_t>(entry)) * 0x100000001B3ull;
    list ^= list >> 29;
  }
  std::string key = fmt::format("{} {} {} {} {} {:x} {}", static_cast<int>(fill.kind), fill.a,
                                fill.b, fill.lo, fill.hi, list, fill.file);
  for (const auto& [row, one] : fill.rows) key += fmt::format(" {}:{}", row, KeyOf(one));
  return key;
}

// What decides the bytes: the spec, and of each tensor what is filled and how it lies in memory.
// Labels of held-out cases come back with other sizes, so that shapes count too.
std::string KeyOf(const BoundCase& bound_case, const InputSpec& spec) {
  std::string key = fmt::format("{} {:x} {} {} {}", bound_case.label, spec.seed,
                                static_cast<int>(spec.set), spec.flip_tensor, spec.flip_element);
  for (const BoundTensor& tensor : bound_case.tensors) {
    key += fmt::format("|{} {} {} {} [{}] [{}] {} {}", tensor.name, tensor.member,
                       static_cast<int>(tensor.role), static_cast<int>(tensor.dtype),
                       fmt::join(tensor.shape, ","), fmt::join(tensor.strides, ","), tensor.is_null,
                       KeyOf(tensor.fill));
  }
  return key;
}

// Rows of inout tensor `index` that the operator may change, or nothing when all may change.
std::optional<std::vector<std::int64_t>> TouchedRows(
    const BoundCase& bound_case, std::size_t index,
    const std::vector<std::vector<std::uint8_t>>& inputs) {
  const Restore& restore = bound_case.tensors[index].restore;
  if (restore.kind == Restore::Kind::kTouchedList) return restore.rows;
  if (restore.kind != Restore::Kind::kTouchedIndex) return std::nullopt;
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.name != restore.index || tensor.is_null) continue;
    for (std::int64_t e = 0; e < tensor.elements(); ++e) {
      rows.push_back(DecodeInteger(tensor.dtype, inputs[i].data(), e));
    }
  }
  return rows;
}

// Whether the device drew what this machine does: at the start and at a place of its own choice.
absl::StatusOr<bool> DrawsAlike(Device& device, const DrawnFill& fill, std::int64_t count,
                                const DeviceBuffer& image, std::uint64_t place) {
  const std::int64_t size = SizeOf(fill.dtype);
  const std::int64_t some = std::min<std::int64_t>(count, 4096);
  std::vector<std::uint8_t> theirs(static_cast<std::size_t>(some * size));
  for (const std::int64_t first :
       {std::int64_t{0}, static_cast<std::int64_t>(RandomBelow(
                             static_cast<std::uint64_t>(count - some + 1), place, 0))}) {
    FETTLE_RETURN_IF_ERROR(device.CopyOut(image, first * size, theirs));
    std::vector<std::uint8_t> ours(static_cast<std::size_t>(some * size));
    WriteDrawn(fill, first, some, ours.data());
    if (theirs != ours) return false;
  }
  return true;
}

}  // namespace

CaseInputCache::CaseInputCache(Device& device)
    : device_(device),
      most_bytes_(device.info().target.vendor == Vendor::kCpu
                      ? kMostCpuBytes
                      : std::min(kMostGpuBytes, device.info().memory_bytes / 8)) {}

void CaseInputCache::Clear() {
  entries_.clear();
  bytes_ = 0;
}

absl::StatusOr<bool> CaseInputCache::Draw(const BoundCase& bound_case, std::size_t index,
                                          const InputSpec& spec, DeviceBuffer& image) {
  const BoundTensor& tensor = bound_case.tensors[index];
  const std::int64_t count = tensor.elements();
  if (!draws_ || count < kDrawFrom) return false;
  const std::optional<DrawnFill> fill = DrawnFillOf(tensor, spec.seed, spec.set);
  if (!fill) return false;
  const absl::Status drawn = device_.Draw(image, count, *fill);
  if (absl::IsUnimplemented(drawn)) return false;
  FETTLE_RETURN_IF_ERROR(drawn);
  FETTLE_ASSIGN_OR_RETURN(draws_, DrawsAlike(device_, *fill, count, image, spec.seed));
  if (!draws_) return false;
  if (static_cast<std::int64_t>(index) != spec.flip_tensor) return true;
  const std::int64_t size = SizeOf(tensor.dtype);
  const std::int64_t element = ((spec.flip_element % count) + count) % count;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  FETTLE_RETURN_IF_ERROR(device_.CopyOut(image, element * size, bytes));
  FlipElementAlone(tensor, element, bytes);
  FETTLE_RETURN_IF_ERROR(device_.CopyIn(image, element * size, bytes));
  return true;
}

absl::StatusOr<std::shared_ptr<const CaseInputCache::Entry>> CaseInputCache::Get(
    const BoundCase& bound_case, const InputSpec& spec,
    const std::map<std::string, std::string>& files) {
  std::string key = KeyOf(bound_case, spec);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&key](const auto& entry) { return entry->key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  auto entry = std::make_shared<Entry>();
  entry->key = std::move(key);
  // Which rows of an inout tensor stay as they are depends on the inputs' values.
  const bool some_stay = std::any_of(
      bound_case.tensors.begin(), bound_case.tensors.end(), [](const BoundTensor& tensor) {
        return tensor.role == Role::kInOut && (tensor.restore.kind == Restore::Kind::kTouchedList ||
                                               tensor.restore.kind == Restore::Kind::kTouchedIndex);
      });
  entry->touched.resize(bound_case.tensors.size());
  if (some_stay) {
    FETTLE_ASSIGN_OR_RETURN(entry->host, MakeInputs(bound_case, spec, files));
    for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
      if (bound_case.tensors[i].role != Role::kInOut) continue;
      entry->touched[i] = TouchedRows(bound_case, i, entry->host);
    }
  }
  const InputWriter write = [&](std::size_t index, std::span<std::uint8_t> dense) {
    return WriteInput(bound_case, index, spec, files, dense);
  };
  const InputDrawer draw = [&](std::size_t index, DeviceBuffer& image) {
    return Draw(bound_case, index, spec, image);
  };
  absl::StatusOr<std::shared_ptr<const CaseImages>> images =
      CaseImages::Make(device_, bound_case, write, staging_, entry->touched, draw);
  if (absl::IsResourceExhausted(images.status()) && !entries_.empty()) {
    Clear();
    images = CaseImages::Make(device_, bound_case, write, staging_, entry->touched, draw);
  }
  FETTLE_RETURN_IF_ERROR(images.status());
  entry->images = *std::move(images);
  bytes_ += entry->images->size_bytes();
  entries_.push_front(std::move(entry));
  while (bytes_ > most_bytes_ && entries_.size() > kAlwaysKept) {
    bytes_ -= entries_.back()->images->size_bytes();
    entries_.pop_back();
  }
  return entries_.front();
}

}  // namespace fettle
