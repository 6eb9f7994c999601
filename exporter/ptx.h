// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace fettle {

// What a PTX text says of itself.
struct PtxFacts {
  std::string version;            // "9.0", of the PTX language
  std::string target;             // "sm_90"
  std::set<std::string> kernels;  // Entries.
};

// kInvalidArgument: no PTX, or one without version, target or kernels.
absl::StatusOr<PtxFacts> ReadPtx(std::string_view text);

}  // namespace fettle
