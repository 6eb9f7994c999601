// SPDX-License-Identifier: Apache-2.0
#include "verifier/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "verifier/index_fill.h"
#include "verifier/npy.h"
#include "verifier/parallel.h"
#include "verifier/random.h"
#include "verifier/value_sets.h"

namespace fettle {
namespace {

constexpr std::int64_t kChunk = 1 << 16;

bool IsIndexFill(Fill::Kind kind) {
  return kind >= Fill::Kind::kIndexUniform && kind <= Fill::Kind::kList;
}

std::string LabelOf(const BoundTensor& tensor) {
  return tensor.member == 0 ? tensor.name : fmt::format("{}[{}]", tensor.name, tensor.member);
}

// Encodes value(i) for i in [0, count) at `first` onwards.
template <typename Value>
void EncodeValues(DType dtype, std::int64_t first, std::int64_t count, std::uint8_t* bytes,
                  const Value& value) {
  // Chunks are even, so that no two threads share a byte of a packed dtype.
  ParallelFor(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    if (dtype == DType::kF32) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto rounded = static_cast<float>(value(i));
        std::memcpy(bytes + (first + i) * 4, &rounded, sizeof(rounded));
      }
    } else if (IsInteger(dtype)) {
      for (std::int64_t i = begin; i < end; ++i) {
        EncodeInteger(dtype, static_cast<std::int64_t>(std::llround(value(i))), bytes, first + i);
      }
    } else {
      for (std::int64_t i = begin; i < end; ++i) EncodeFloat(dtype, value(i), bytes, first + i);
    }
  });
}

constexpr std::int64_t kBatch = 512;

// The doubles of a drawn fill of floats.
void DrawBatch(const DrawnFill& fill, std::int64_t first, std::span<double> to) {
  const auto from = static_cast<std::uint64_t>(first);
  switch (fill.kind) {
    case DrawnFill::Kind::kNormal:
      RandomNormals(fill.seed, from, to);
      break;
    case DrawnFill::Kind::kUniform:
      RandomUnits(fill.seed, from, to);
      break;
    default:
      std::fill(to.begin(), to.end(), fill.a);
      return;
  }
  for (double& value : to) value = fill.a + fill.b * value;
}

// A fill of one range: the tensor's own, or one of its rows.
std::optional<DrawnFill> DrawnRange(DType dtype, const Fill& fill, std::uint64_t seed,
                                    InputSet set) {
  constexpr double kExact = 0x1p52;  // Integers below it are exact as f64.
  DrawnFill drawn{.dtype = dtype, .a = fill.a, .seed = seed};
  const bool integer = IsInteger(dtype);
  const bool of_set = IsIntegerSet(set)
                          ? integer
                          : set != InputSet::kDeclared && !integer && dtype != DType::kF8E8M0;
  switch (fill.kind) {
    case Fill::Kind::kZero:
      drawn.a = 0;
      break;
    case Fill::Kind::kConstant:
      break;
    case Fill::Kind::kNormal:
      if (of_set || integer) return std::nullopt;
      drawn.kind = DrawnFill::Kind::kNormal;
      drawn.b = fill.b;
      return drawn;
    case Fill::Kind::kUniform:
      if (of_set || std::fabs(fill.a) >= kExact || std::fabs(fill.b) >= kExact) return std::nullopt;
      drawn.kind = integer ? DrawnFill::Kind::kBelow : DrawnFill::Kind::kUniform;
      drawn.b = fill.b - fill.a;
      drawn.low = static_cast<std::int64_t>(std::ceil(fill.a));
      drawn.span =
          static_cast<std::uint64_t>(std::max(0.0, std::floor(fill.b) - std::ceil(fill.a))) + 1;
      return drawn;
    case Fill::Kind::kIndexUniform:
      if (of_set || set == InputSet::kEdgeValues || fill.hi <= fill.lo || !integer) {
        return std::nullopt;
      }
      drawn.kind = DrawnFill::Kind::kBelow;
      drawn.low = fill.lo;
      drawn.span = static_cast<std::uint64_t>(fill.hi - fill.lo);
      return drawn;
    default:
      return std::nullopt;
  }
  if (!integer) return drawn;
  if (!(std::fabs(drawn.a) < kExact)) return std::nullopt;
  drawn.kind = DrawnFill::Kind::kBelow;
  drawn.low = std::llround(drawn.a);
  return drawn;
}

std::uint64_t SeedOf(const BoundTensor& tensor, std::uint64_t seed) {
  return DeriveSeed(seed, tensor.name, static_cast<std::uint64_t>(tensor.member));
}

absl::Status FillFromFile(const BoundTensor& tensor, const Fill& fill, std::int64_t first,
                          std::int64_t count, const std::map<std::string, std::string>& files,
                          std::uint8_t* bytes) {
  const auto found = files.find(fill.file);
  if (found == files.end()) {
    return absl::InvalidArgumentError(
        fmt::format("fill {}: the task has no file '{}'; add it to the task folder",
                    LabelOf(tensor), fill.file));
  }
  auto array = ParseNpy(found->second);
  if (!array.ok()) {
    return absl::InvalidArgumentError(fmt::format("fill {} from '{}': {}", LabelOf(tensor),
                                                  fill.file,
                                                  std::string(array.status().message())));
  }
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> from, NpyToDType(*array, tensor.dtype));
  const auto want = static_cast<std::size_t>(StorageBytes(tensor.dtype, count));
  if (from.size() != want) {
    return absl::InvalidArgumentError(
        fmt::format("fill {} from '{}': the file holds {} bytes, the case needs {} ({} elements)",
                    LabelOf(tensor), fill.file, from.size(), want, count));
  }
  if (count > 0) std::memcpy(bytes + StorageBytes(tensor.dtype, first), from.data(), want);
  return absl::OkStatus();
}

absl::Status FillRange(const BoundTensor& tensor, const Fill& fill, std::int64_t first,
                       std::int64_t count, std::uint64_t seed, InputSet set,
                       const std::map<std::string, std::string>& files, std::uint8_t* bytes) {
  if (count == 0) return absl::OkStatus();
  if (fill.kind == Fill::Kind::kFile) return FillFromFile(tensor, fill, first, count, files, bytes);
  const bool whole = first == 0 && count == tensor.elements();
  if (whole) {
    if (const auto drawn = DrawnRange(tensor.dtype, fill, seed, set)) {
      WriteDrawn(*drawn, 0, count, bytes);
      return absl::OkStatus();
    }
  }
  if (IsIndexFill(fill.kind)) {
    auto values = MakeIndices(fill, count, seed, set);
    if (!values.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("fill {}: {}", LabelOf(tensor), std::string(values.status().message())));
    }
    ParallelFor(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        EncodeInteger(tensor.dtype, (*values)[i], bytes, first + i);
      }
    });
    return absl::OkStatus();
  }
  const ValueSource source(tensor, fill, whole ? set : InputSet::kDeclared, count, seed);
  EncodeValues(tensor.dtype, first, count, bytes, [&](std::int64_t i) { return source.Value(i); });
  return absl::OkStatus();
}

// Replaces element `element` of `bytes`.
void FlipAt(const BoundTensor& tensor, bool up, std::int64_t element, std::uint8_t* bytes) {
  const Fill& fill = tensor.fill;
  if (IsIndexFill(fill.kind)) {
    const std::int64_t span = fill.hi - fill.lo;
    const std::int64_t old = DecodeInteger(tensor.dtype, bytes, element);
    EncodeInteger(tensor.dtype,
                  fill.lo + (old - fill.lo + std::max<std::int64_t>(1, span / 2)) % span, bytes,
                  element);
    return;
  }
  const double old = IsFloat(tensor.dtype)
                         ? DecodeFloat(tensor.dtype, bytes, element)
                         : static_cast<double>(DecodeInteger(tensor.dtype, bytes, element));
  const bool normal = fill.kind == Fill::Kind::kNormal;
  // Of 16,384 normal values the largest is above five deviations one time in 200.
  const double low = normal ? fill.a - 5 * std::fabs(fill.b) : fill.a;
  const double high = normal ? fill.a + 5 * std::fabs(fill.b) : fill.b;
  double fresh = up ? high : low;
  if (std::fabs(fresh - old) < (high - low) / 4) fresh = fresh == high ? low : high;
  if (IsFloat(tensor.dtype)) {
    EncodeFloat(tensor.dtype, fresh, bytes, element);
  } else {
    EncodeInteger(tensor.dtype, std::llround(fresh), bytes, element);
  }
}

}  // namespace

std::string_view InputSetName(InputSet set) {
  switch (set) {
    case InputSet::kDeclared:
      return "declared";
    case InputSet::kExactIntegers:
      return "exact_integers";
    case InputSet::kScaleTiny:
      return "scale_1e-4";
    case InputSet::kScaleSmall:
      return "scale_1e-2";
    case InputSet::kScaleLarge:
      return "scale_8";
    case InputSet::kScaleHuge:
      return "scale_1e3";
    case InputSet::kRowScales:
      return "row_scales";
    case InputSet::kHeavyTail:
      return "heavy_tail";
    case InputSet::kAllEqual:
      return "all_equal";
    case InputSet::kAllZero:
      return "all_zero";
    case InputSet::kAllNegative:
      return "all_negative";
    case InputSet::kSorted:
      return "sorted";
    case InputSet::kReversed:
      return "reversed";
    case InputSet::kTies:
      return "ties";
    case InputSet::kOneHot:
      return "one_hot";
    case InputSet::kCheckerboard:
      return "checkerboard";
    case InputSet::kLowRank:
      return "low_rank";
    case InputSet::kOffset:
      return "offset";
    case InputSet::kEdgeValues:
      return "edge_values";
    case InputSet::kLargeValues:
      return "large_values";
    case InputSet::kExtremeIntegers:
      return "extreme_integers";
    case InputSet::kEqualIntegers:
      return "equal_integers";
    case InputSet::kFewIntegers:
      return "few_integers";
    case InputSet::kSortedIntegers:
      return "sorted_integers";
    case InputSet::kNonFinite:
      return "nonfinite";
  }
  return "unknown";
}

std::optional<DrawnFill> DrawnFillOf(const BoundTensor& tensor, std::uint64_t seed, InputSet set) {
  if (!tensor.fill.rows.empty()) return std::nullopt;
  return DrawnRange(tensor.dtype, tensor.fill, SeedOf(tensor, seed), set);
}

void WriteDrawn(const DrawnFill& fill, std::int64_t first, std::int64_t count,
                std::uint8_t* bytes) {
  // Chunks are even, so that no two threads share a byte of a packed dtype.
  ParallelFor(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    if (fill.kind == DrawnFill::Kind::kBelow) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto drawn = static_cast<std::int64_t>(
            RandomBelow(fill.span, fill.seed, static_cast<std::uint64_t>(first + i)));
        EncodeInteger(fill.dtype, fill.low + drawn, bytes, i);
      }
      return;
    }
    double values[kBatch];
    for (std::int64_t at = begin; at < end; at += kBatch) {
      const std::int64_t here = std::min(kBatch, end - at);
      DrawBatch(fill, first + at, {values, static_cast<std::size_t>(here)});
      if (fill.dtype == DType::kF32) {
        float rounded[kBatch];
        for (std::int64_t i = 0; i < here; ++i) rounded[i] = static_cast<float>(values[i]);
        std::memcpy(bytes + at * 4, rounded, static_cast<std::size_t>(here) * 4);
      } else {
        for (std::int64_t i = 0; i < here; ++i) EncodeFloat(fill.dtype, values[i], bytes, at + i);
      }
    }
  });
}

absl::Status WriteInput(const BoundTensor& tensor, std::uint64_t seed, InputSet set,
                        const std::map<std::string, std::string>& files,
                        std::span<std::uint8_t> to) {
  FETTLE_CHECK(static_cast<std::int64_t>(to.size()) == DenseBytes(tensor));
  const std::int64_t count = tensor.elements();
  const std::uint64_t stream = SeedOf(tensor, seed);
  FETTLE_RETURN_IF_ERROR(FillRange(tensor, tensor.fill, 0, count, stream, set, files, to.data()));
  const std::int64_t row = RowElements(tensor);
  for (const auto& [index, fill] : tensor.fill.rows) {
    if (index < 0 || index >= RowCount(tensor)) continue;
    FETTLE_RETURN_IF_ERROR(FillRange(tensor, fill, index * row, row,
                                     DeriveSeed(stream, "row", static_cast<std::uint64_t>(index)),
                                     InputSet::kDeclared, files, to.data()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint8_t>> MakeInput(
    const BoundTensor& tensor, std::uint64_t seed, InputSet set,
    const std::map<std::string, std::string>& files) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(DenseBytes(tensor)));
  FETTLE_RETURN_IF_ERROR(WriteInput(tensor, seed, set, files, bytes));
  return bytes;
}

absl::Status WriteInput(const BoundCase& bound_case, std::size_t index, const InputSpec& spec,
                        const std::map<std::string, std::string>& files,
                        std::span<std::uint8_t> to) {
  const BoundTensor& tensor = bound_case.tensors[index];
  FETTLE_RETURN_IF_ERROR(WriteInput(tensor, spec.seed, spec.set, files, to));
  if (static_cast<std::int64_t>(index) == spec.flip_tensor && tensor.elements() > 0) {
    FlipElement(tensor, spec.flip_element, to);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> MakeInputs(
    const BoundCase& bound_case, const InputSpec& spec,
    const std::map<std::string, std::string>& files) {
  std::vector<std::vector<std::uint8_t>> inputs;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    inputs.emplace_back();
    if (tensor.is_null || tensor.role == Role::kOut) continue;
    inputs.back().resize(static_cast<std::size_t>(DenseBytes(tensor)));
    FETTLE_RETURN_IF_ERROR(WriteInput(bound_case, i, spec, files, inputs.back()));
  }
  return inputs;
}

bool CanFlip(const BoundTensor& tensor) {
  if (tensor.is_null || tensor.role == Role::kOut || tensor.elements() == 0) return false;
  switch (tensor.fill.kind) {
    case Fill::Kind::kNormal:
      return tensor.fill.b != 0;
    case Fill::Kind::kUniform:
      return tensor.fill.b > tensor.fill.a;
    case Fill::Kind::kIndexUniform:
    case Fill::Kind::kIndexZipf:
      return tensor.fill.hi - tensor.fill.lo > 1;
    default:
      return false;
  }
}

void FlipElement(const BoundTensor& tensor, std::int64_t element, std::span<std::uint8_t> dense) {
  const std::int64_t count = tensor.elements();
  element = ((element % count) + count) % count;
  FlipAt(tensor, /*up=*/element % 2 == 0, element, dense.data());
}

void FlipElementAlone(const BoundTensor& tensor, std::int64_t element,
                      std::span<std::uint8_t> one) {
  FlipAt(tensor, /*up=*/element % 2 == 0, 0, one.data());
}

const std::string& InputsFingerprint() {
  static const std::string fingerprint = [] {
    std::string drawn;
    const auto add = [&drawn](const BoundTensor& tensor, InputSet set) {
      const auto bytes = MakeInput(tensor, /*seed=*/7, set, {});
      if (bytes.ok()) drawn.append(bytes->begin(), bytes->end());
      drawn += '|';
      if (!bytes.ok() || set != InputSet::kDeclared || !CanFlip(tensor)) return;
      for (std::int64_t element = 0; element < 4; ++element) {
        std::vector<std::uint8_t> flipped = *bytes;
        FlipElement(tensor, element, flipped);
        drawn.append(flipped.begin(), flipped.end());
      }
    };
    BoundTensor tensor;
    tensor.shape = {5, 21};
    tensor.strides = {21, 1};
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32}) {
      tensor.dtype = dtype;
      for (int set = 0; set <= static_cast<int>(InputSet::kNonFinite); ++set) {
        tensor.fill = {.kind = Fill::Kind::kNormal, .a = 0.5, .b = 2};
        add(tensor, static_cast<InputSet>(set));
        tensor.fill = {.kind = Fill::Kind::kUniform, .a = -3, .b = 5};
        add(tensor, static_cast<InputSet>(set));
        if (!IsInteger(dtype)) continue;
        for (const Fill::Kind kind :
             {Fill::Kind::kIndexUniform, Fill::Kind::kIndexZipf, Fill::Kind::kIndexSorted,
              Fill::Kind::kIndexPermutation, Fill::Kind::kIndexRepeated}) {
          tensor.fill = {.kind = kind, .a = 1.2, .lo = 0, .hi = 105};
          add(tensor, static_cast<InputSet>(set));
        }
      }
    }
    return Sha256Hex(drawn);
  }();
  return fingerprint;
}

}  // namespace fettle
