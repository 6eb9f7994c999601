// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/external_proposer.h"
#include "agent/tuner.h"
#include "core/status_macros.h"
#include "server/errors.h"
#include "server/limits.h"
#include "server/llm_proposer.h"
#include "server/server.h"

namespace fettle {

std::vector<std::string> DefaultProposerKinds() {
  return {"tuner", "external", "llm", "hybrid", "replay"};
}

ProposerFactory DefaultProposers() {
  return [](const std::string& kind, const Task& task, const Target& target,
            const ProposerOptions& options) -> absl::StatusOr<std::unique_ptr<Proposer>> {
    if (kind == "external") return std::make_unique<ExternalProposer>(task, target, options.seed);
    if (kind == "llm" || kind == "hybrid" || kind == "replay") {
      return MakeModelProposer(kind, task, target, options);
    }
    if (kind != "tuner") {
      return errors::BadField("proposer", fmt::format("'{}' is not known; there are {}", kind,
                                                      fmt::join(DefaultProposerKinds(), ", ")));
    }
    TunerOptions tuner;
    tuner.seed = options.seed;
    tuner.budget = options.budget > 0 ? options.budget : limits::kUnlimitedCandidates;
    return MakeTuner(task, target, tuner);
  };
}

}  // namespace fettle
