// SPDX-License-Identifier: Apache-2.0
#include "worker/sanitizer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  if (named != nullptr && *named != '\0') return FindOnPath(named);
  std::vector<std::string> folders;
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/bin");
  folders.insert(folders.end(), {"/usr/local/cuda/bin", "/usr/local/bin", "/usr/bin"});
  return FindOnPath("compute-sanitizer", folders);
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

// The kernel that a line speaks of: what stands behind "at " where it begins a line ("    at
// scale(float*)+0x90") or follows an access ("Write access at scale(float*)+0x90").
std::string_view KernelIn(std::string_view line) {
  while (line.starts_with(' ')) line.remove_prefix(1);
  if (line.starts_with("at ")) {
    line.remove_prefix(3);
  } else {
    constexpr std::string_view kAccess = "access at ";
    const std::size_t access = line.find(kAccess);
    if (access == std::string_view::npos) return {};
    line.remove_prefix(access + kAccess.size());
  }
  if (line.starts_with("void ")) line.remove_prefix(5);
  return line;
}

struct Report {
  bool summary = false;  // It came to its end,
  bool none = false;     // and counted no error.
  bool own = false;      // Something was found in fettle's own kernels.
  std::vector<std::string> findings;
  std::string complaint;  // Of the sanitizer about itself.
};

// A finding counts once it names a kernel, and that is not one of fettle's own. What names none is
// the sanitizer's, or the driver's, complaint.
Report Parse(std::string_view output, const std::vector<std::string>& own_kernels) {
  Report report;
  std::string finding;
  bool own = false, named = false;
  const auto finish = [&] {
    if (!finding.empty() && named && !own) report.findings.push_back(finding);
    report.own = report.own || own;
    if (!finding.empty() && !named && report.complaint.empty()) report.complaint = finding;
    finding.clear();
    own = named = false;
  };
  for (const std::string_view line : OwnLines(output)) {
    const std::size_t summary = line.find("SUMMARY: ");
    if (summary != std::string_view::npos) {
      finish();
      report.summary = true;
      // Of races, "2 hazards displayed (0 errors, 2 warnings)".
      report.none = line.substr(summary + 9).starts_with("0 ") ||
                    line.find("(0 errors", summary) != std::string_view::npos;
      continue;
    }
    const bool more = line.starts_with(' ');
    if (!more) finish();
    if (!more && (line.starts_with("COMPUTE-SANITIZER") || line.starts_with("Warning"))) continue;
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
  if (report.none) return say(Outcome::kPassed, "");
  // It counted findings, and none was of the candidate.
  return report.own ? say(Outcome::kPassed, "findings in fettle's own kernels left out")
                    : say(Outcome::kNotRun, "it counted errors but named none");
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

std::vector<SanitizerFinding> SanitizeCalls(const std::vector<Replay>& calls,
                                            const std::string& runner_path,
                                            const std::string& device_id,
                                            const SanitizerOptions& options, std::stop_token stop) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "fettle-sanitizer-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return NotSanitized("no folder for the calls can be made");
  std::vector<std::string> command = {runner_path, "--device", device_id};
  bool written = true;
  for (const Replay& call : calls) {
    const std::string file = fmt::format("{}/{}.json", folder, command.size());
    std::ofstream out(file);
    out << ToJson(call).dump();
    out.close();
    written = written && out.good();
    command.insert(command.end(), {"--replay", file});
  }
  std::vector<SanitizerFinding> findings =
      written ? Sanitize(command, options, std::move(stop))
              : NotSanitized("the calls could not be written to " + folder);
  std::error_code error;
  fs::remove_all(folder, error);
  return findings;
}

std::vector<SanitizerFinding> NotSanitized(const std::string& why) {
  std::vector<SanitizerFinding> findings;
  for (const std::string& tool : SanitizerOptions().tools) {
    findings.push_back({tool, Outcome::kNotRun, why});
  }
  return findings;
}

std::map<std::string, std::string> SanitizerWords(const std::vector<SanitizerFinding>& findings) {
  std::map<std::string, std::string> words;
  for (const SanitizerFinding& one : findings) {
    const std::string word = one.outcome == Outcome::kPassed   ? "passed"
                             : one.outcome == Outcome::kFailed ? "failed"
                                                               : "not_run";
    words[one.tool] = one.message.empty() ? word : word + ": " + one.message;
  }
  return words;
}

std::optional<VerdictRecord> SanitizerVerdict(const std::vector<SanitizerFinding>& findings) {
  for (const SanitizerFinding& one : findings) {
    if (one.outcome != Outcome::kFailed) continue;
    return VerdictRecord{
        .verdict = Verdict::kIncorrect,
        .stage = Stage::kConfirm,
        .reason_code = "sanitizer",
        .message = fmt::format("compute-sanitizer's {} found: {}", one.tool, one.message),
        .evidence = {{"tool", one.tool},
                     {"finding", one.message},
                     {"sanitizers", SanitizerWords(findings)}}};
  }
  return std::nullopt;
}

}  // namespace fettle
