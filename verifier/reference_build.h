// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <absl/status/statusor.h>

namespace fettle {

// Compiles the task's `file` to a shared object and returns its bytes; all of the task's files and
// "fettle_reference.h" can be included. Kept under `cache_dir` (empty: not kept) by a digest of
// sources, flags and compiler version.
//
// Errors: kFailedPrecondition (the source does not compile; the message holds the first lines of
// the log), kUnavailable (no compiler), kInternal (no temporary folder).
absl::StatusOr<std::string> BuildReference(const std::map<std::string, std::string>& files,
                                           const std::string& file, const std::string& compiler,
                                           const std::string& cache_dir);

}  // namespace fettle
