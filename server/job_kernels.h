// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels of a job's candidates as the store keeps them.

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "core/task.h"
#include "core/work_unit.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

// The candidate of the job that `name` means: its digest or its variant's id, or a prefix of one of
// them that is unambiguous (kInvalidArgument otherwise). Unset: there is none.
absl::StatusOr<std::optional<CandidateRow>> FindNamedCandidate(const Store& store,
                                                               const std::string& job_id,
                                                               const std::string& name);

// kDataLoss: its kernel is not stored.
absl::StatusOr<KernelUnderTest> LoadKernel(const Store& store, const CandidateRow& row);

// What the job's candidates are compared with in its present stage: the tuned baseline, or the
// declared one.
absl::StatusOr<KernelUnderTest> FindDenominator(const Store& store, const Task& task,
                                                const JobRow& job);

// The kernel's document with the first value of every tunable, so that candidates which differ in
// their values alone, which their rows hold, share it.
std::string SharedKernelJson(KernelSpec kernel);

}  // namespace fettle
