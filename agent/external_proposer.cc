// SPDX-License-Identifier: Apache-2.0
#include "agent/external_proposer.h"

#include "agent/tuner.h"

namespace fettle {

absl::StatusOr<std::vector<Proposal>> ExternalProposer::Propose(int max, std::stop_token stop) {
  std::vector<Proposal> proposals;
  std::erase_if(tuners_, [](const auto& tuner) { return tuner->exhausted(); });
  for (std::size_t i = 0; i < tuners_.size() && static_cast<int>(proposals.size()) < max; ++i) {
    Proposer& tuner = *tuners_[turn_++ % tuners_.size()];
    // A few at a time, so that several kernels get their turns.
    absl::StatusOr<std::vector<Proposal>> some =
        tuner.Propose(std::min(max - static_cast<int>(proposals.size()), 4), stop);
    if (!some.ok()) return some.status();
    for (Proposal& proposal : *some) proposals.push_back(std::move(proposal));
  }
  return proposals;
}

void ExternalProposer::Observe(const Outcome& outcome) {
  for (const auto& tuner : tuners_) tuner->Observe(outcome);
}

void ExternalProposer::Fit(const KernelSpec& kernel, const std::string& digest,
                           std::int64_t budget) {
  TunerOptions options;
  options.seed = seed_ ^ std::hash<std::string>()(digest);
  options.budget = budget;
  options.parent = digest;
  absl::StatusOr<std::unique_ptr<Proposer>> tuner =
      MakeKernelTuner(task_, kernel, target_, std::move(options));
  // A kernel without tunables has nothing to fit.
  if (tuner.ok()) tuners_.push_back(*std::move(tuner));
}

}  // namespace fettle
