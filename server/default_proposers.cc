// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "agent/tuner.h"
#include "core/status_macros.h"
#include "server/errors.h"
#include "server/limits.h"
#include "server/server.h"

namespace fettle {

ProposerFactory DefaultProposers() {
  return [](const std::string& kind, const Task& task, const Target& target,
            const ProposerOptions& options) -> absl::StatusOr<std::unique_ptr<Proposer>> {
    if (kind != "tuner") {
      return errors::BadField("proposer", fmt::format("'{}' is not known; there is tuner", kind));
    }
    TunerOptions tuner;
    tuner.seed = options.seed;
    tuner.budget = options.budget > 0 ? options.budget : limits::kUnlimitedCandidates;
    return MakeTuner(task, target, tuner);
  };
}

}  // namespace fettle
