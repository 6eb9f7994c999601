// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/device.h"
#include "device/runner_session.h"

namespace fettle {

// 64 hex digits over what is drawn for a sample of fills, sets and changed elements: other digits
// where another build draws otherwise, so that nothing kept for the same InputSpec is taken for it.
// Thread-safe.
const std::string& InputsFingerprint();

// What the inputs of a case hold: the same bytes on every machine for the same spec.
struct InputSpec {
  std::uint64_t seed = 0;
  InputSet set = InputSet::kDeclared;
  // As in RunRequest: this element of this tensor is replaced; -1: none.
  std::int64_t flip_tensor = -1, flip_element = 0;
};

// "declared", "exact_integers", "heavy_tail", ...
std::string_view InputSetName(InputSet set);

// Dense bytes of every tensor, in case order; empty for pure outputs and null tensors. `files`
// holds the contents of files that fills name.
//
// kInvalidArgument: a file is missing, unreadable or of another size; a fill's list is of another
// size than its tensor; an empty index range.
absl::StatusOr<std::vector<std::vector<std::uint8_t>>> MakeInputs(
    const BoundCase& bound_case, const InputSpec& spec,
    const std::map<std::string, std::string>& files);

// One tensor of the above, without the flip.
absl::StatusOr<std::vector<std::uint8_t>> MakeInput(
    const BoundTensor& tensor, std::uint64_t seed, InputSet set,
    const std::map<std::string, std::string>& files);

// The same into memory that the caller has, DenseBytes long: of one tensor of a case, flip
// included, and of a tensor by itself. Every byte is written, but for a last half byte of a packed
// dtype, so that must be zeroed before.
absl::Status WriteInput(const BoundCase& bound_case, std::size_t index, const InputSpec& spec,
                        const std::map<std::string, std::string>& files,
                        std::span<std::uint8_t> to);
absl::Status WriteInput(const BoundTensor& tensor, std::uint64_t seed, InputSet set,
                        const std::map<std::string, std::string>& files,
                        std::span<std::uint8_t> to);

// The fill of a whole tensor as a device can draw it (Device::Draw); unset where its bytes follow
// from something else than a seed and a place: files, lists, most index fills, input sets.
std::optional<DrawnFill> DrawnFillOf(const BoundTensor& tensor, std::uint64_t seed, InputSet set);
// Writes entries [first, first + count) of a drawn fill, in several threads; `bytes` is where entry
// `first` goes, which of a packed dtype is even.
void WriteDrawn(const DrawnFill& fill, std::int64_t first, std::int64_t count, std::uint8_t* bytes);

// Whether one element can be replaced by another value that its fill allows. Then any element may
// have the value of any other.
bool CanFlip(const BoundTensor& tensor);
// Replaces element `element` (taken modulo the count) of a nonempty tensor by a clearly different
// value that its fill allows: of an even element the bound above, of an odd one that below (five
// standard deviations for normal fills), so that a maximum or a minimum changes with it, or the
// other one where it is there already. Indices go half of their span further.
void FlipElement(const BoundTensor& tensor, std::int64_t element, std::span<std::uint8_t> dense);
// The same where `one` holds that element (from 0 below the count) alone. Not for packed dtypes.
void FlipElementAlone(const BoundTensor& tensor, std::int64_t element, std::span<std::uint8_t> one);

}  // namespace fettle
