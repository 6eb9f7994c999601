// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "core/fettle_reference.h"
#include "verifier/expected.h"
#include "verifier/inputs.h"

namespace fettle {

// One result as a reference fills it: memory, and how it reads.
class ReferenceResultBuffer {
 public:
  // Every element of the rows; `rows` empty means all rows of the tensor.
  ReferenceResultBuffer(const BoundTensor& tensor, std::int64_t index,
                        std::vector<std::int64_t> rows, bool bits, bool magnitude);
  fettle_result Bind();
  // kInvalidArgument when values are left unset.
  absl::StatusOr<ExpectedOutput> Take();
  std::int64_t row_elements() const { return output_.row_elements; }

 private:
  std::int64_t asked_rows() const;

  BoundTensor tensor_;
  bool bits_ = false;
  ExpectedOutput output_;
};

// Elements of a tensor as a reference or checker sees them; one of the two is set, and neither is
// touched before several threads fill it.
struct DecodedTensor {
  std::unique_ptr<double[]> reals;
  std::unique_ptr<std::int64_t[]> integers;
};
DecodedTensor DecodeTensor(const BoundTensor& tensor, const std::uint8_t* dense);

// A case as a reference sees it: decoded inputs, dims, scalars. Owns everything that `ref()` points
// to.
class ReferenceCase {
 public:
  static absl::StatusOr<std::unique_ptr<ReferenceCase>> Create(
      BoundCase bound_case, const InputSpec& spec, const std::map<std::string, std::string>& files);

  const BoundCase& bound_case() const { return case_; }
  // Without results.
  fettle_ref ref() const;
  bool IsBits(const BoundTensor& tensor) const;
  bool WantsMagnitude(const BoundTensor& tensor) const;

 private:
  ReferenceCase() = default;
  absl::Status MakeTensors(const InputSpec& spec, const std::map<std::string, std::string>& files);
  void MakeScalars();

  BoundCase case_;
  std::vector<DecodedTensor> decoded_;
  std::vector<double> scalar_values_;
  std::vector<fettle_tensor> tensors_, scalars_;
  std::vector<fettle_dim> dims_;
};

}  // namespace fettle
