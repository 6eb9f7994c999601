// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bank of cheats, broken kernels and honest traps (tests/cheats/bank.json) and what fettle says
// of each: shared by the tests and by bench/bank.cc.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/blob.h"
#include "core/task.h"
#include "core/verdict.h"
#include "worker/toolchains.h"
#include "worker/unit_runner.h"

namespace fettle {

// What the naive harness (naive.h) says of a cheat.
struct NaiveExpectation {
  std::string habit;  // One of naive.h's.
  bool fooled = true;
  bool wins = false;                 // It also measures a speed-up that there is not.
  std::string why;                   // When it is not fooled.
  std::string file, marker;          // plain_compiler: what must not get out.
  std::vector<std::string> targets;  // As BankEntry's.
};

struct BankEntry {
  std::string id;
  std::string kind;  // "cheat", "broken", "honest"
  std::string task;  // Folder below tests/cheats/tasks, or below tasks as "bundled/NAME".
  std::string title;
  std::string source_name, source;
  std::vector<std::string> expect;        // Verdict names that are right.
  std::vector<std::string> targets;       // Empty: all; "gpu": not on cpu.
  nlohmann::json block;                   // Overrides of the baseline's block.
  std::optional<NaiveExpectation> naive;  // Unset: not asked.
};

// `folder` is tests/cheats.
absl::StatusOr<std::vector<BankEntry>> ReadBank(const std::string& folder);
absl::StatusOr<TaskFiles> ReadBankTask(const std::string& folder, const std::string& task);
// Whether `targets`, as in BankEntry, hold this one.
bool RunsOn(const std::vector<std::string>& targets, const std::string& target);

struct BankKernel {
  TaskFiles files;
  std::shared_ptr<const Task> task;
  std::optional<KernelSpec> kernel;  // Unset: the block is refused for `problem`.
  std::string problem;
};
absl::StatusOr<BankKernel> ParseBankEntry(const std::string& folder, const BankEntry& entry);

// Takes an entry through evaluation and, when it is a contender, confirmation, as a job would.
// Thread-safe.
class BankJudge {
 public:
  // Both must outlive this object.
  BankJudge(UnitRunner& runner, BlobStore& blobs, std::string folder, std::string target)
      : runner_(runner), blobs_(blobs), folder_(std::move(folder)), target_(std::move(target)) {}

  // An error is a failure of the infrastructure.
  absl::StatusOr<VerdictRecord> Judge(const BankEntry& entry, std::uint64_t seed);

  int confirmations() const { return confirmations_; }

 private:
  UnitRunner& runner_;
  BlobStore& blobs_;
  const std::string folder_, target_;
  std::atomic<int> confirmations_ = 0;
};

}  // namespace fettle
