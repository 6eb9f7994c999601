// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVIDIA's compute-sanitizer over one command: a process of its own, outside the sandbox, in which
// no sanitizer works. Only for kernels that cannot reach the process that launches them.

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace fettle {

struct SanitizerOptions {
  // Empty: FETTLE_COMPUTE_SANITIZER, then where CUDA puts it.
  std::string program;
  std::vector<std::string> tools = {"memcheck", "initcheck", "racecheck", "synccheck"};
  // Kernels of fettle's own, by the start of their names: what is found in them does not count.
  std::vector<std::string> own_kernels = {"fettle_"};
  std::chrono::seconds limit{60};  // Of each tool.
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

// {"memcheck": "passed", "racecheck": "failed: ...", "initcheck": "not_run: ..."}
nlohmann::json ToJson(const std::vector<SanitizerFinding>& findings);

}  // namespace fettle
