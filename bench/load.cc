// SPDX-License-Identifier: Apache-2.0
// Thousands of evaluations on one device, with good, wrong, crashing and rejected kernels among
// them: memory of the host and of the device, descriptors and threads must stay flat.
//
//   bench/run load [--device cpu|cuda:0|hip:0] [--evaluations N] [--measure-every N]
//
// Prints a line every twentieth of the way and ends with 1 when something grew.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/unit_runner.h"

namespace fettle {
namespace {

struct Options {
  std::string device = "cpu";
  int evaluations = 2000;
  int measure_every = 50;  // The others are only verified.
};

// What this process and every one below it hold.
struct Usage {
  double host_mb = 0, device_mb = -1;  // -1: unknown.
  int descriptors = 0, threads = 0, processes = 0;
};

void AddProcess(pid_t pid, Usage& usage) {
  const std::string folder = fmt::format("/proc/{}", pid);
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;) {
    std::int64_t value = 0;
    if (word == "VmRSS:" && status >> value) usage.host_mb += static_cast<double>(value) / 1024;
    if (word == "Threads:" && status >> value) usage.threads += static_cast<int>(value);
  }
  ++usage.processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", error)) {
    static_cast<void>(entry);
    ++usage.descriptors;
  }
  for (const auto& task : std::filesystem::directory_iterator(folder + "/task", error)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) AddProcess(child, usage);
  }
}

// Used memory of the whole board: the driver counts per process only where it may see them.
double DeviceMegabytes(const std::string& device) {
  if (device == "cpu") return -1;
  FILE* pipe =
      popen("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null", "r");
  if (pipe == nullptr) return -1;
  double used = -1;
  const int read = std::fscanf(pipe, "%lf", &used);
  pclose(pipe);
  return read == 1 ? used : -1;
}

Usage Measure(const std::string& device) {
  Usage usage;
  AddProcess(getpid(), usage);
  usage.device_mb = DeviceMegabytes(device);
  return usage;
}

// What the evaluations cycle through, and what each must end as ("": right).
struct Kind {
  const char* name;
  std::string source;
  const char* verdict;
};
std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  for (int i = 0; i < 12; ++i) {
    kinds.push_back({"right", TwiceKernel(fmt::format("y[i] = x[i] + x[i]; // {}\n", i)), ""});
  }
  kinds.push_back({"wrong", TwiceKernel("y[i] = 3 * x[i];"), "INCORRECT"});
  kinds.push_back({"rejected", TwiceKernel("y[i] = 2 * z[i];"), "COMPILE_ERROR"});
  kinds.push_back(
      {"faults",
       TwiceKernel("*reinterpret_cast<volatile float*>(1ULL << 50) = 1; y[i] = 2 * x[i];"),
       "CRASHED"});
  return kinds;
}

class Load {
 public:
  Load(Options options, UnitRunner& runner)
      : options_(std::move(options)),
        runner_(runner),
        target_(runner.devices().front().target.name) {}

  absl::StatusOr<int> Run() {
    std::vector<TaskProblem> problems;
    auto task = Task::Parse(TwiceTask(), &problems);
    if (!task.ok()) return task.status();
    task_ = *task;
    blob_ = *blobs_.Put(PackTaskFiles(TwiceTask()));
    const std::vector<Kind> kinds = Kinds();
    const int step = std::max(1, options_.evaluations / 20);
    std::vector<Usage> seen;
    std::printf("%8s %10s %10s %8s %8s %8s %10s\n", "done", "host MB", "device MB", "fds",
                "threads", "procs", "ms each");
    auto since = std::chrono::steady_clock::now();
    for (int i = 0; i < options_.evaluations; ++i) {
      const Kind& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
      const bool measured = i % options_.measure_every == 0;
      const auto result = runner_.Run(Unit(kind, i, measured), blobs_, {}, {});
      if (!result.ok()) return result.status();
      const std::string verdict =
          result->verdict ? std::string(VerdictName(result->verdict->verdict)) : "";
      // A busy machine may not be able to measure.
      const bool expected = verdict == kind.verdict || (measured && verdict == "UNMEASURABLE");
      if (!expected && ++odd_ <= 5) {
        std::printf("evaluation %d (%s): %s: %s\n", i, kind.name, verdict.c_str(),
                    result->verdict ? result->verdict->message.c_str() : "right");
      }
      if ((i + 1) % step != 0) continue;
      const auto now = std::chrono::steady_clock::now();
      seen.push_back(Measure(options_.device));
      const Usage& usage = seen.back();
      std::printf("%8d %10.1f %10.1f %8d %8d %8d %10.1f\n", i + 1, usage.host_mb, usage.device_mb,
                  usage.descriptors, usage.threads, usage.processes,
                  std::chrono::duration<double, std::milli>(now - since).count() / step);
      std::fflush(stdout);
      since = std::chrono::steady_clock::now();
    }
    return Judge(seen);
  }

 private:
  WorkUnit Unit(const Kind& kind, int i, bool measured) {
    WorkUnit unit;
    unit.id = fmt::format("load-{}", i);
    unit.task_digest = task_->digest();
    unit.task_blob = blob_;
    unit.target = target_;
    unit.candidate = TwiceUnderTest(*task_, target_, kind.source);
    unit.denominator = TwiceUnderTest(*task_, target_, task_->baseline().source);
    unit.seed = static_cast<std::uint64_t>(i) + 1;
    unit.screen = false;
    unit.measure = measured;
    unit.time_cap_s = 0.5;
    return unit;
  }

  // The second quarter against the last one; before it, caches fill.
  int Judge(const std::vector<Usage>& seen) const {
    if (seen.size() < 8) {
      std::printf("too few evaluations to judge\n");
      return odd_ == 0 ? 0 : 1;
    }
    const std::size_t quarter = seen.size() / 4;
    int grown = 0;
    const auto compare = [&](const char* what, auto value, double slack) {
      const auto median = [&](std::size_t from) {
        std::vector<double> values;
        for (std::size_t i = from; i < from + quarter; ++i) values.push_back(value(seen[i]));
        std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                         values.end());
        return values[values.size() / 2];
      };
      const double early = median(quarter), late = median(seen.size() - quarter);
      const bool flat = late <= early + slack;
      grown += flat ? 0 : 1;
      std::printf("%-12s %10.1f -> %10.1f  %s\n", what, early, late, flat ? "flat" : "GREW");
    };
    compare(
        "host MB", [](const Usage& u) { return u.host_mb; }, 24);
    compare(
        "device MB", [](const Usage& u) { return u.device_mb; }, 16);
    compare(
        "descriptors", [](const Usage& u) { return double{static_cast<double>(u.descriptors)}; },
        2);
    compare(
        "threads", [](const Usage& u) { return double{static_cast<double>(u.threads)}; }, 2);
    std::printf("%d verdicts other than expected\n", odd_);
    return grown == 0 && odd_ == 0 ? 0 : 1;
  }

  const Options options_;
  UnitRunner& runner_;
  const std::string target_;
  MemoryBlobStore blobs_;
  std::shared_ptr<const Task> task_;
  std::string blob_;
  int odd_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Evaluations on one device, and what they leave behind");
  app.add_option("--device", options.device, "cpu, cuda:N or hip:N");
  app.add_option("--evaluations", options.evaluations, "how many")->check(CLI::PositiveNumber);
  app.add_option("--measure-every", options.measure_every, "the others are only verified")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  UnitRunnerOptions runner;
  // Every evaluation has a seed of its own, so that a larger cache would fill up to the end.
  runner.reference_memory_bytes = std::int64_t{64} << 20;
  runner.device_ids = {options.device};
  const auto created = UnitRunner::Create(std::move(runner));
  if (!created.ok()) {
    std::fprintf(stderr, "load: %s\n", created.status().ToString().c_str());
    return 3;
  }
  std::printf("%d evaluations on %s (%s)\n", options.evaluations, options.device.c_str(),
              (*created)->devices().front().model.c_str());
  const auto code = Load(options, **created).Run();
  if (code.ok()) return *code;
  std::fprintf(stderr, "load: %s\n", code.status().ToString().c_str());
  return 3;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
