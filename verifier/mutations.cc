// SPDX-License-Identifier: Apache-2.0
// The wrong outputs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/tensor_layout.h"
#include "verifier/compare.h"
#include "verifier/mutation.h"
#include "verifier/poison.h"
#include "verifier/random.h"

namespace fettle {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Size = std::size_t;

double Read(DType dtype, const Bytes& bytes, std::int64_t i) {
  return IsFloat(dtype) ? DecodeFloat(dtype, bytes.data(), i)
                        : static_cast<double>(DecodeInteger(dtype, bytes.data(), i));
}

void Write(DType dtype, double value, Bytes* bytes, std::int64_t i) {
  if (IsFloat(dtype)) {
    EncodeFloat(dtype, value, bytes->data(), i);
  } else {
    EncodeInteger(dtype, static_cast<std::int64_t>(std::llround(value)), bytes->data(), i);
  }
}

// Builds mutations of one output.
class Maker {
 public:
  Maker(const BoundTensor& tensor, const BoundTolerance& tolerance, const ExpectedOutput& expected,
        const Bytes& right, std::uint64_t seed)
      : tensor_(tensor),
        tolerance_(tolerance),
        expected_(expected),
        right_(right),
        seed_(seed),
        count_(tensor.elements()),
        rows_(RowCount(tensor)),
        row_(RowElements(tensor)) {}

  void Add(const std::string& name, Bytes bytes, bool must_fail = true) {
    if (bytes == right_) return;
    made_.push_back({name, expected_.tensor, std::move(bytes), must_fail});
  }
  template <typename Value>
  void AddValues(const std::string& name, const Value& value, bool must_fail = true) {
    Bytes bytes = right_;
    for (std::int64_t i = 0; i < count_; ++i) Write(tensor_.dtype, value(i), &bytes, i);
    Add(name, std::move(bytes), must_fail);
  }

  void Fills();
  void OneElement();
  void Rows();
  void Values();
  std::vector<Mutation> Take() { return std::move(made_); }

 private:
  const BoundTensor& tensor_;
  const BoundTolerance& tolerance_;
  const ExpectedOutput& expected_;
  const Bytes& right_;
  std::uint64_t seed_;
  std::int64_t count_, rows_, row_;
  std::vector<Mutation> made_;
};

void Maker::Fills() {
  double mean = 0;
  for (std::int64_t i = 0; i < count_; ++i) {
    const double value = Read(tensor_.dtype, right_, i);
    if (std::isfinite(value)) mean += value / static_cast<double>(count_);
  }
  AddValues("zeros", [](std::int64_t) { return 0.0; });
  AddValues("ones", [](std::int64_t) { return 1.0; });
  AddValues("mean", [mean](std::int64_t) { return mean; });
  Add("poison_a", Bytes(right_.size(), kPoisonA));
  Add("poison_b", Bytes(right_.size(), kPoisonB));
}

// One element beside its place: by 16 tolerances where there is one, by one unit or bit where the
// output is exact, clearly for checkers.
void Maker::OneElement() {
  const auto at = static_cast<std::int64_t>(RandomBelow(static_cast<Size>(count_), seed_, 0));
  const double value = Read(tensor_.dtype, right_, at);
  if (HasNaN(tensor_.dtype) && IsFloat(tensor_.dtype) && !std::isnan(value)) {
    Bytes bytes = right_;
    EncodeFloat(tensor_.dtype, std::numeric_limits<double>::quiet_NaN(), bytes.data(), at);
    Add("one_nan", std::move(bytes));
  }
  if (!std::isfinite(value)) return;
  const bool bound = tolerance_.kind == BoundTolerance::Kind::kAuto ||
                     tolerance_.kind == BoundTolerance::Kind::kRelative;
  double step = 0;
  if (bound && !expected_.values.empty() && expected_.rows.empty()) {
    step = 16 * ElementTolerance(tolerance_, tensor_.dtype, expected_)(at);
  } else if (tolerance_.kind == BoundTolerance::Kind::kChecker) {
    step = 1 + 2 * std::fabs(value);
  }
  if (IsInteger(tensor_.dtype)) step = std::max(1.0, step);
  if (step > 0) {
    for (const double sign : {1.0, -1.0}) {
      Bytes bytes = right_;
      Write(tensor_.dtype, value + sign * step, &bytes, at);
      Add(sign > 0 ? "one_element_high" : "one_element_low", std::move(bytes));
    }
    return;
  }
  Bytes bytes = right_;
  bytes[static_cast<Size>(StorageBytes(tensor_.dtype, at))] ^= 1;
  Add("one_bit", std::move(bytes));
}

void Maker::Rows() {
  if (tensor_.dtype == DType::kF4E2M1X2) return;  // Rows may share bytes.
  const std::int64_t size = row_ * SizeOf(tensor_.dtype);
  if (rows_ >= 2) {
    // The first row against the one that is least like it.
    std::int64_t other = 1;
    double largest = -1;
    for (std::int64_t r = 1; r < std::min<std::int64_t>(rows_, 64); ++r) {
      double distance = 0;
      for (std::int64_t c = 0; c < row_; ++c) {
        const double d =
            std::fabs(Read(tensor_.dtype, right_, c) - Read(tensor_.dtype, right_, r * row_ + c));
        if (std::isfinite(d)) distance += d;
      }
      if (distance > largest) {
        largest = distance;
        other = r;
      }
    }
    Bytes bytes = right_;
    std::swap_ranges(bytes.begin(), bytes.begin() + size, bytes.begin() + other * size);
    Add("rows_swapped", std::move(bytes));
  }
  if (count_ >= 2) {
    const std::int64_t element = SizeOf(tensor_.dtype);
    Bytes tail = right_;
    const std::int64_t tile = std::clamp<std::int64_t>(count_ / 4, 1, 32);
    std::fill(tail.end() - tile * element, tail.end(), kPoisonB);
    Add("last_tile_missing", std::move(tail));
    Bytes half = right_;
    std::fill(half.begin() + count_ / 2 * element, half.end(), std::uint8_t{0});
    Add("half_right", std::move(half));
  }
}

void Maker::Values() {
  // Zeros keep their sign: -0 is no other value.
  AddValues("sign_flipped", [this](std::int64_t i) {
    const double value = Read(tensor_.dtype, right_, i);
    return value == 0 ? value : -value;
  });
  if (tensor_.shape.size() >= 2 && rows_ > 1 && row_ > 1 && tensor_.dtype != DType::kF4E2M1X2) {
    const std::int64_t size = SizeOf(tensor_.dtype);
    Bytes bytes = right_;
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < row_; ++c) {
        std::memcpy(bytes.data() + (c * rows_ + r) * size, right_.data() + (r * row_ + c) * size,
                    static_cast<Size>(size));
      }
    }
    Add("transposed", std::move(bytes));
  }
  const bool fine = tensor_.dtype == DType::kF32 || tensor_.dtype == DType::kF64;
  if (fine && tolerance_.kind == BoundTolerance::Kind::kAuto && !tolerance_.inner) {
    // Low precision may be what the task allows, so this one only warns.
    AddValues(
        "rounded_to_f16",
        [this](std::int64_t i) { return RoundTo(DType::kF16, Read(tensor_.dtype, right_, i)); },
        /*must_fail=*/false);
  }
}

}  // namespace

std::vector<Mutation> MakeMutations(const BoundCase& bound_case, const ExpectedOutput& expected,
                                    const Bytes& right, const Bytes& other_seed,
                                    const std::vector<Bytes>& inputs, std::uint64_t seed) {
  const BoundTensor& tensor = bound_case.tensors[static_cast<Size>(expected.tensor)];
  if (right.empty()) return {};
  const BoundTolerance tolerance = ToleranceFor(bound_case, tensor.name);
  Maker maker(tensor, tolerance, expected, right, seed);
  maker.Fills();
  maker.OneElement();
  maker.Rows();
  maker.Values();
  maker.Add("other_seed", other_seed);
  for (Size i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() == right.size() && bound_case.tensors[i].dtype == tensor.dtype) {
      maker.Add("copy_of_" + bound_case.tensors[i].name, inputs[i]);
    }
  }
  return maker.Take();
}

}  // namespace fettle
