// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference_case.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "verifier/parallel.h"

namespace fettle {
namespace {

// A NaN that no computation returns: marks what a reference has not written.
constexpr std::uint64_t kUnset = 0x7FF4FE771E0BADE5ull;

bool IsUnset(double value) { return std::bit_cast<std::uint64_t>(value) == kUnset; }

}  // namespace

DecodedTensor DecodeTensor(const BoundTensor& tensor, const std::uint8_t* dense) {
  const std::int64_t count = tensor.elements();
  const auto size = static_cast<std::size_t>(count);
  DecodedTensor decoded;
  if (IsFloat(tensor.dtype)) {
    decoded.reals = std::make_unique_for_overwrite<double[]>(size);
  } else {
    decoded.integers = std::make_unique_for_overwrite<std::int64_t[]>(size);
  }
  ParallelFor(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (decoded.reals) {
        decoded.reals[at] = DecodeFloat(tensor.dtype, dense, i);
      } else {
        decoded.integers[at] = DecodeInteger(tensor.dtype, dense, i);
      }
    }
  });
  return decoded;
}

ReferenceResultBuffer::ReferenceResultBuffer(const BoundTensor& tensor, std::int64_t index,
                                             std::vector<std::int64_t> rows, bool bits,
                                             bool magnitude)
    : tensor_(tensor), bits_(bits) {
  output_.name = tensor.name;
  output_.tensor = index;
  output_.row_elements = RowElements(tensor);
  output_.rows = std::move(rows);
  const auto count = static_cast<std::size_t>(asked_rows() * output_.row_elements);
  const double unset = std::bit_cast<double>(kUnset);
  output_.values.assign(count, unset);
  if (magnitude && !bits) {
    output_.magnitude.assign(count, unset);
    output_.length.assign(count, unset);
  }
}

std::int64_t ReferenceResultBuffer::asked_rows() const {
  return output_.rows.empty() ? RowCount(tensor_) : static_cast<std::int64_t>(output_.rows.size());
}

fettle_result ReferenceResultBuffer::Bind() {
  fettle_result result{};
  result.name = tensor_.name.c_str();
  result.member = tensor_.member;
  result.rows = output_.rows.empty() ? nullptr : output_.rows.data();
  result.row_begin = 0;
  result.row_end = asked_rows();
  result.values = output_.values.data();
  result.magnitude = output_.magnitude.empty() ? nullptr : output_.magnitude.data();
  result.length = output_.length.empty() ? nullptr : output_.length.data();
  return result;
}

absl::StatusOr<ExpectedOutput> ReferenceResultBuffer::Take() {
  const auto unset = static_cast<std::int64_t>(
      std::count_if(output_.values.begin(), output_.values.end(), IsUnset));
  const auto count = static_cast<std::int64_t>(output_.values.size());
  // Raw bytes fill only the front part of the buffer.
  const std::int64_t byte_count = StorageBytes(tensor_.dtype, count);
  const std::int64_t may_be_unset = bits_ ? count - (byte_count + 7) / 8 : 0;
  if (unset > may_be_unset) {
    return absl::InvalidArgumentError(fmt::format(
        "the reference left {} of {} values of output {} unset; fill every row asked for",
        unset - may_be_unset, count - may_be_unset, tensor_.name));
  }
  for (std::vector<double>* optional : {&output_.magnitude, &output_.length}) {
    if (std::any_of(optional->begin(), optional->end(), IsUnset)) optional->clear();
  }
  // Mostly all sums are equally long, and one number says it.
  std::vector<double>& length = output_.length;
  if (length.size() > 1 &&
      std::adjacent_find(length.begin(), length.end(), std::not_equal_to<>()) == length.end()) {
    length = {length.front()};
  }
  if (bits_) {
    output_.bytes.resize(static_cast<std::size_t>(byte_count));
    if (byte_count > 0)
      std::memcpy(output_.bytes.data(), output_.values.data(), output_.bytes.size());
    output_.values.clear();
  }
  return std::move(output_);
}

absl::StatusOr<std::unique_ptr<ReferenceCase>> ReferenceCase::Create(
    BoundCase bound_case, const InputSpec& spec, const std::map<std::string, std::string>& files) {
  std::unique_ptr<ReferenceCase> result(new ReferenceCase);
  result->case_ = std::move(bound_case);
  FETTLE_RETURN_IF_ERROR(result->MakeTensors(spec, files));
  result->MakeScalars();
  return result;
}

absl::Status ReferenceCase::MakeTensors(const InputSpec& spec,
                                        const std::map<std::string, std::string>& files) {
  decoded_.resize(case_.tensors.size());
  for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
    const BoundTensor& tensor = case_.tensors[i];
    if (tensor.role == Role::kOut) continue;
    fettle_tensor one{tensor.name.c_str(), tensor.member, 0, nullptr, nullptr};
    if (!tensor.is_null) {
      const auto size = static_cast<std::size_t>(DenseBytes(tensor));
      const auto dense = std::make_unique_for_overwrite<std::uint8_t[]>(size);
      if (size > 0) dense[size - 1] = 0;
      FETTLE_RETURN_IF_ERROR(WriteInput(case_, i, spec, files, {dense.get(), size}));
      decoded_[i] = DecodeTensor(tensor, dense.get());
      one.count = tensor.elements();
      one.values = decoded_[i].reals.get();
      one.integers = decoded_[i].integers.get();
    }
    tensors_.push_back(one);
  }
  return absl::OkStatus();
}

void ReferenceCase::MakeScalars() {
  for (const BoundDim& dim : case_.dims) {
    dims_.push_back(
        {dim.name.c_str(), static_cast<std::int64_t>(dim.values.size()), dim.values.data()});
  }
  scalar_values_.reserve(case_.scalars.size());  // Addresses must stay.
  for (const BoundScalar& scalar : case_.scalars) {
    if (!IsFloat(scalar.dtype)) continue;
    scalar_values_.push_back(scalar.real);
    scalars_.push_back({scalar.name.c_str(), 0, 1, &scalar_values_.back(), nullptr});
  }
}

fettle_ref ReferenceCase::ref() const {
  fettle_ref ref{};
  ref.version = 1;
  ref.tensor_count = static_cast<std::int32_t>(tensors_.size());
  ref.dim_count = static_cast<std::int32_t>(dims_.size());
  ref.scalar_count = static_cast<std::int32_t>(scalars_.size());
  ref.tensors = tensors_.data();
  ref.dims = dims_.data();
  ref.scalars = scalars_.data();
  return ref;
}

bool ReferenceCase::IsBits(const BoundTensor& tensor) const {
  for (const BoundTolerance& tolerance : case_.tolerances) {
    if (tolerance.output == tensor.name) {
      return tolerance.kind == BoundTolerance::Kind::kExactBits && tolerance.raw;
    }
  }
  return false;
}

bool ReferenceCase::WantsMagnitude(const BoundTensor& tensor) const {
  for (const BoundTolerance& tolerance : case_.tolerances) {
    if (tolerance.output == tensor.name) return tolerance.kind == BoundTolerance::Kind::kAuto;
  }
  return false;
}

}  // namespace fettle
