// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVIDIA's compute-sanitizer over one command: a process of its own, outside the sandbox, in which
// no sanitizer works. Only for kernels that cannot reach the process that launches them.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/verdict.h"
#include "worker/replay.h"

namespace fettle {

struct SanitizerOptions {
  // Empty: FETTLE_COMPUTE_SANITIZER, then PATH, $CUDA_HOME/bin and where CUDA puts it.
  std::string program;
  std::vector<std::string> tools = {"memcheck", "initcheck", "racecheck", "synccheck"};
  // Kernels of fettle's own, by the start of their names: what is found in them does not count.
  std::vector<std::string> own_kernels = {"fettle_"};
  std::chrono::seconds limit{45};  // Of each tool.
};

// What one tool said.
struct SanitizerFinding {
  enum class Outcome {
    kPassed,  // It ran to its end and counted nothing.
    kFailed,  // `message` is its first finding.
    kNotRun,  // `message` says why; never a pass.
  };
  std::string tool;
  Outcome outcome = Outcome::kNotRun;
  std::string message;
};

// Runs every tool over `command` (argv; a full path first). Whatever goes wrong is a kNotRun.
std::vector<SanitizerFinding> Sanitize(const std::vector<std::string>& command,
                                       const SanitizerOptions& options, std::stop_token stop);

// What one run printed, and how it ended ("" for exit code 0).
SanitizerFinding ReadSanitizer(const std::string& tool, const std::string& output,
                               const std::string& ending,
                               const std::vector<std::string>& own_kernels);

// Runs every tool over one process of `runner_path` that makes all `calls` on `device_id`, one
// after another. The calls lie in a private folder meanwhile.
std::vector<SanitizerFinding> SanitizeCalls(const std::vector<Replay>& calls,
                                            const std::string& runner_path,
                                            const std::string& device_id,
                                            const SanitizerOptions& options, std::stop_token stop);

// As SanitizeCalls, where another runs them.
using SanitizeFunction =
    std::function<std::vector<SanitizerFinding>(const std::vector<Replay>&, std::stop_token)>;

// Every tool as not run, for one reason.
std::vector<SanitizerFinding> NotSanitized(const std::string& why);

// {"memcheck": "passed", "racecheck": "failed: ...", "initcheck": "not_run: ..."}, as
// VerificationReport::sanitizers.
std::map<std::string, std::string> SanitizerWords(const std::vector<SanitizerFinding>& findings);

// INCORRECT at confirmation ("sanitizer"), with the first tool's finding; nothing where none
// failed.
std::optional<VerdictRecord> SanitizerVerdict(const std::vector<SanitizerFinding>& findings);

}  // namespace fettle
