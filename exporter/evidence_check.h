// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "core/blob.h"
#include "core/task.h"
#include "exporter/provenance.h"

namespace fettle {

// A variant whose evidence holds, ready to be laid out as files.
struct ProvenVariant {
  const VariantProvenance* provenance = nullptr;
  std::shared_ptr<const Task> task;
  KernelSpec kernel;
  TunableValues values;
};

// Whether a licence expression may leave fettle: an SPDX identifier of a known licence, or a
// LicenseRef- of the task's own.
bool IsKnownLicense(const std::string& license);

// Whether the variant is meant for the case: `requires` and the constraints hold.
absl::StatusOr<bool> AppliesTo(const ProvenVariant& variant, const BoundCase& bound_case);

// Checks everything that an export relies on, from the raw samples upwards. `provenance` must
// outlive the result. kFailedPrecondition gives the reason of a refusal: demoted variant, changed
// task, unknown licence, missing or failed verification, missing measurement, samples that do not
// give the recorded ratios, an interval that reaches down to 1, a missing build. kDataLoss: a blob
// whose bytes are not those of its digest. kNotFound: a missing blob.
absl::StatusOr<ProvenVariant> CheckEvidence(const VariantProvenance& provenance, BlobStore& blobs);

}  // namespace fettle
