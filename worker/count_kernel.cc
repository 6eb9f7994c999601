// SPDX-License-Identifier: Apache-2.0
#include "worker/count_kernel.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

#include "compiler/child_process.h"
#include "core/text.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

// Where Nsight Compute is installed beside CUDA: .../VERSION/ncu, the newest by name.
std::string NewestNsight() {
  std::string newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/opt/nvidia/nsight-compute", error)) {
    const std::string program = (entry.path() / "ncu").string();
    if (!FindOnPath(program).empty() && program > newest) newest = program;
  }
  return newest;
}

std::string FindProfiler(Vendor vendor) {
  const bool nvidia = vendor == Vendor::kNvidia;
  const char* named = std::getenv(nvidia ? "FETTLE_NCU" : "FETTLE_ROCPROFV3");
  if (named != nullptr && *named != '\0') return FindOnPath(named);
  const std::string beside = nvidia ? "/usr/local/cuda/bin" : "/opt/rocm/bin";
  std::string found = FindOnPath(std::string(ProfilerOf(vendor)), {beside});
  return found.empty() && nvidia ? NewestNsight() : found;
}

std::string ReadWhole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The profiler's own complaint, in one line.
std::string Complaint(const ChildResult& result) {
  std::string last;
  std::string_view output = result.output;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    const std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    if (line.find("==ERROR==") != std::string_view::npos) return std::string(line);
    if (!line.empty()) last = std::string(line);
  }
  return fmt::format("{}: {}", result.Ending(), last.substr(0, 300));
}

// Runs the passes of one report in one folder.
class Counting {
 public:
  Counting(const Replay& replay, const CountOptions& options, std::stop_token stop)
      : replay_(replay), options_(options), stop_(std::move(stop)) {
    std::string name = (fs::temp_directory_path() / "fettle-counters-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~Counting() {
    std::error_code error;
    if (!folder_.empty()) fs::remove_all(folder_, error);
  }

  CounterReport Run() {
    report_.tool = std::string(ProfilerOf(options_.vendor));
    const std::string program =
        options_.profiler.empty() ? FindProfiler(options_.vendor) : options_.profiler;
    if (report_.tool.empty()) return Absent("the cpu target has no counters");
    if (program.empty()) {
      return Absent(fmt::format("{} is not installed here", report_.tool));
    }
    std::ofstream file(folder_ / "replay.json");
    file << ToJson(replay_).dump();
    file.close();
    if (!file) return Absent(fmt::format("the call could not be written to {}", folder_.string()));
    std::string problem;
    for (const auto& counters : CounterPasses(options_.vendor)) {
      const std::string failed = Pass(program, counters);
      if (!failed.empty() && problem.empty()) problem = failed;
      if (stop_.stop_requested() || std::chrono::steady_clock::now() >= deadline_) break;
    }
    report_.kernels = CounterFacts(options_.vendor, raw_);
    if (report_.kernels.empty()) {
      return Absent(problem.empty() ? "the profiler saw none of the kernels" : problem);
    }
    return std::move(report_);
  }

 private:
  CounterReport Absent(std::string why) {
    report_.absent = CutText(ValidUtf8(why), 500);
    return std::move(report_);
  }

  // One run of the profiler; empty, or why it gave nothing. Counters that it does not know are left
  // out and the rest is tried again.
  std::string Pass(const std::string& program, std::vector<std::string> counters) {
    std::string failed = "nothing to count";
    for (int attempt = 0; attempt < kAttempts && !counters.empty(); ++attempt) {
      const auto result = Profile(program, counters);
      if (!result.ok()) return std::string(result.status().message());
      if (result->timed_out) return fmt::format("{} did not end in time", report_.tool);
      const std::string table = options_.vendor == Vendor::kAmd
                                    ? ReadWhole(folder_ / "counters_counter_collection.csv")
                                    : result->output;
      const absl::Status added =
          options_.vendor == Vendor::kAmd ? AddRocprofCsv(table, raw_) : AddNcuCsv(table, raw_);
      if (added.ok()) return "";
      failed = Complaint(*result);
      if (!DropUnknown(result->output, counters)) break;
    }
    for (std::string& counter : counters) report_.missing.push_back(std::move(counter));
    return failed;
  }

  // Takes out of `counters` those whose name the profiler's errors mention.
  bool DropUnknown(const std::string& output, std::vector<std::string>& counters) {
    const auto unknown = [&output](const std::string& counter) {
      const std::string name = "metric " + counter.substr(0, counter.find('.'));
      for (std::size_t at = 0; (at = output.find(name, at)) != std::string::npos; ++at) {
        // One name may begin with another.
        const char next = at + name.size() < output.size() ? output[at + name.size()] : '\n';
        if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return true;
      }
      return false;
    };
    const auto first = std::stable_partition(counters.begin(), counters.end(),
                                             [&](const auto& one) { return !unknown(one); });
    const bool any = first != counters.end();
    report_.missing.insert(report_.missing.end(), first, counters.end());
    counters.erase(first, counters.end());
    return any;
  }

  absl::StatusOr<ChildResult> Profile(const std::string& program,
                                      const std::vector<std::string>& counters) {
    ChildCommand command;
    command.argv =
        ProfilerCommand(options_.vendor, program, replay_.symbols, counters, folder_.string());
    for (const std::string& word :
         {options_.runner_path, std::string("--replay"), (folder_ / "replay.json").string(),
          std::string("--device"), options_.device_id}) {
      command.argv.push_back(word);
    }
    command.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + folder_.string(),
                           "TMPDIR=" + folder_.string()};
    for (const char* name : {"FETTLE_CUDA_LIBRARY", "FETTLE_HIP_LIBRARY", "LD_LIBRARY_PATH"}) {
      if (const char* value = std::getenv(name)) {
        command.environment.push_back(fmt::format("{}={}", name, value));
      }
    }
    command.working_dir = folder_.string();
    command.limits.output_bytes = std::int64_t{8} << 20;
    command.limits.wall = std::max(std::chrono::milliseconds(1),
                                   std::chrono::duration_cast<std::chrono::milliseconds>(
                                       deadline_ - std::chrono::steady_clock::now()));
    return RunChild(command, stop_);
  }

  static constexpr int kAttempts = 4;
  const Replay& replay_;
  const CountOptions& options_;
  const std::stop_token stop_;
  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + options_.limit;
  fs::path folder_;
  RawCounters raw_;
  CounterReport report_;
};

}  // namespace

CounterReport CountKernel(const Replay& replay, const CountOptions& options, std::stop_token stop) {
  return Counting(replay, options, std::move(stop)).Run();
}

}  // namespace fettle
