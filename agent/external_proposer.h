// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/proposer.h"
#include "core/target.h"

namespace fettle {

// The proposer `external`: the job takes what clients hand in through the Proposals service, for as
// long as its budget lasts. By itself it only tries further values of the tunables of proposals
// that ask for it (Fit), one kernel after the other in turn.
class ExternalProposer final : public Proposer {
 public:
  // `task` must outlive the proposer.
  ExternalProposer(const Task& task, Target target, std::uint64_t seed)
      : task_(task), target_(std::move(target)), seed_(seed) {}

  std::string_view name() const override { return "external"; }
  absl::StatusOr<std::vector<Proposal>> Propose(int max, std::stop_token stop) override;
  void Observe(const Outcome& outcome) override;
  void Fit(const KernelSpec& kernel, const std::string& digest, std::int64_t budget) override;
  bool exhausted() const override { return false; }

 private:
  const Task& task_;
  const Target target_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<Proposer>> tuners_;
  std::size_t turn_ = 0;
};

}  // namespace fettle
