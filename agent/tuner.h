// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "agent/proposer.h"
#include "core/target.h"
#include "core/task.h"

namespace fettle {

struct TunerOptions {
  std::uint64_t seed = 1;
  std::int64_t budget = 100;  // Candidates that it may propose in all, > 0.
  std::string parent;         // Candidate that the proposals descend from; empty: the baseline.
};

// The proposer `tuner`: the baseline's own tunables on this target (docs/search.md). The declared
// values come first; then every combination, shuffled, where the budget covers them, else what the
// search portfolio suggests. A combination must satisfy the constraints for every timed case, or,
// where none does, for at least one. Exhausted once the budget or the combinations are used up.
//
// `task` must outlive the proposer. kInvalidArgument: no combination is left on this target, or a
// budget that is not positive.
absl::StatusOr<std::unique_ptr<Proposer>> MakeTuner(const Task& task, const Target& target,
                                                    TunerOptions options);

// The same for another kernel of the task: its own tunables, beginning with its own values.
absl::StatusOr<std::unique_ptr<Proposer>> MakeKernelTuner(const Task& task, KernelSpec kernel,
                                                          const Target& target,
                                                          TunerOptions options);

}  // namespace fettle
