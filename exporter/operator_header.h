// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "exporter/bundle_model.h"

namespace fettle {

// The typed operator header (include/fettle_ops/<op>/<digest8>.hpp). kFailedPrecondition: a plan
// that a header cannot express yet (tensor maps, values of a family's dtype, half-precision
// per-case scalars); the message names it.
absl::StatusOr<std::string> OperatorHeader(const BundleModel& model);

// include/fettle_ops/<op>.hpp: the above under the operator's plain name.
std::string AliasHeader(const BundleModel& model);

}  // namespace fettle
