// SPDX-License-Identifier: Apache-2.0
#include "worker/sanitizer.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "compiler/child_process.h"
#include "core/text.h"

namespace fettle {
namespace {

using Outcome = SanitizerFinding::Outcome;

constexpr std::string_view kMark = "=========";
constexpr std::size_t kMessageBytes = 400;

std::string FindSanitizer() {
  const char* named = std::getenv("FETTLE_COMPUTE_SANITIZER");
  if (named != nullptr && *named != '\0') return access(named, X_OK) == 0 ? named : "";
  for (const char* place : {"/usr/local/cuda/bin/compute-sanitizer",
                            "/usr/local/bin/compute-sanitizer", "/usr/bin/compute-sanitizer"}) {
    if (access(place, X_OK) == 0) return place;
  }
  return "";
}

// The lines that the sanitizer itself printed, without its mark; further lines of one finding keep
// their indentation.
std::vector<std::string_view> OwnLines(std::string_view output) {
  std::vector<std::string_view> lines;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    if (!line.starts_with(kMark)) continue;
    line.remove_prefix(kMark.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// The kernel that a line speaks of: what stands behind its "at ".
std::string_view KernelIn(std::string_view line) {
  const std::size_t at = line.find("at ");
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + 3);
  if (line.starts_with("void ")) line.remove_prefix(5);
  return line;
}

struct Report {
  bool summary = false;  // It came to its end,
  bool none = false;     // and counted nothing.
  std::vector<std::string> findings;
  std::string complaint;  // Of the sanitizer about itself.
};

Report Parse(std::string_view output, const std::vector<std::string>& own_kernels) {
  Report report;
  std::string finding;
  bool own = false, named = false;
  const auto finish = [&] {
    if (!finding.empty() && !own) report.findings.push_back(finding);
    finding.clear();
    own = named = false;
  };
  for (const std::string_view line : OwnLines(output)) {
    const std::size_t summary = line.find("SUMMARY: ");
    if (summary != std::string_view::npos) {
      finish();
      report.summary = true;
      report.none = line.substr(summary + 9).starts_with("0 ");
      continue;
    }
    const bool more = line.starts_with(' ');
    if (!more) finish();
    if (!more && (line.starts_with("COMPUTE-SANITIZER") || line.starts_with("Warning"))) continue;
    if (!more && line.starts_with("Error: ") && line.find(" at ") == std::string_view::npos) {
      if (report.complaint.empty()) report.complaint = std::string(line);
      continue;
    }
    if (!more) finding = std::string(line);
    const std::string_view kernel = named ? std::string_view() : KernelIn(line);
    if (kernel.empty() || finding.empty()) continue;
    named = true;
    own = std::any_of(own_kernels.begin(), own_kernels.end(),
                      [&](const std::string& start) { return kernel.starts_with(start); });
    if (more) finding += ", at " + std::string(kernel);
  }
  finish();
  return report;
}

}  // namespace

SanitizerFinding ReadSanitizer(const std::string& tool, const std::string& output,
                               const std::string& ending,
                               const std::vector<std::string>& own_kernels) {
  const Report report = Parse(output, own_kernels);
  const auto say = [&](Outcome outcome, const std::string& text) {
    return SanitizerFinding{tool, outcome, CutText(ValidUtf8(text), kMessageBytes)};
  };
  if (!report.findings.empty()) return say(Outcome::kFailed, report.findings.front());
  if (!report.complaint.empty()) return say(Outcome::kNotRun, report.complaint);
  if (!ending.empty()) return say(Outcome::kNotRun, "it ended by " + ending);
  if (!report.summary) return say(Outcome::kNotRun, "it printed no summary");
  // Findings that were counted, all in kernels of fettle's own.
  return say(Outcome::kPassed, report.none ? "" : "findings in fettle's own kernels left out");
}

std::vector<SanitizerFinding> Sanitize(const std::vector<std::string>& command,
                                       const SanitizerOptions& options, std::stop_token stop) {
  const std::string program = options.program.empty() ? FindSanitizer() : options.program;
  std::vector<SanitizerFinding> findings;
  for (const std::string& tool : options.tools) {
    if (program.empty()) {
      findings.push_back({tool, Outcome::kNotRun, "compute-sanitizer is not installed here"});
      continue;
    }
    ChildCommand run;
    // Failing calls of the driver are the runner's business, and often only questions.
    run.argv = {program, "--tool", tool, "--report-api-errors", "no", "--print-limit", "100"};
    run.argv.insert(run.argv.end(), command.begin(), command.end());
    run.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"};
    for (const char* name : {"FETTLE_CUDA_LIBRARY", "LD_LIBRARY_PATH"}) {
      if (const char* value = std::getenv(name)) {
        run.environment.push_back(fmt::format("{}={}", name, value));
      }
    }
    run.limits.wall = options.limit;
    run.limits.output_bytes = std::int64_t{4} << 20;
    const auto ran = RunChild(run, stop);
    if (!ran.ok()) {
      findings.push_back({tool, Outcome::kNotRun, std::string(ran.status().message())});
      continue;
    }
    findings.push_back(
        ReadSanitizer(tool, ran->output, ran->ok() ? "" : ran->Ending(), options.own_kernels));
  }
  return findings;
}

nlohmann::json ToJson(const std::vector<SanitizerFinding>& findings) {
  nlohmann::json json = nlohmann::json::object();
  for (const SanitizerFinding& one : findings) {
    const std::string word = one.outcome == Outcome::kPassed   ? "passed"
                             : one.outcome == Outcome::kFailed ? "failed"
                                                               : "not_run";
    json[one.tool] = one.message.empty() ? word : word + ": " + one.message;
  }
  return json;
}

}  // namespace fettle
