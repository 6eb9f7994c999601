// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>

#include "agent/proposer.h"

namespace fettle {

// Proposes BLOCK = 1, 2, ..., `count` with the baseline's kernel, in that order, leaving out what
// was observed.
class ListProposer final : public Proposer {
 public:
  ListProposer(std::string name, KernelSpec kernel, int count)
      : name_(std::move(name)), kernel_(std::move(kernel)), count_(count) {}

  std::string_view name() const override { return name_; }
  absl::StatusOr<std::vector<Proposal>> Propose(int max, std::stop_token) override {
    std::vector<Proposal> proposals;
    while (next_ <= count_ && static_cast<int>(proposals.size()) < max) {
      const int block = next_++;
      if (seen_.contains(block)) continue;
      Proposal proposal;
      proposal.kernel = kernel_;
      proposal.values = {{"BLOCK", block}};
      proposal.technique = "list";
      proposal.rationale = "the next one";
      proposals.push_back(std::move(proposal));
    }
    return proposals;
  }
  void Observe(const Outcome& outcome) override {
    if (const auto block = outcome.values.find("BLOCK"); block != outcome.values.end()) {
      seen_.insert(static_cast<int>(block->second));
    }
  }
  bool exhausted() const override { return next_ > count_; }

 private:
  const std::string name_;
  const KernelSpec kernel_;
  const int count_;
  int next_ = 1;
  std::set<int> seen_;
};

}  // namespace fettle
