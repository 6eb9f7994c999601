// SPDX-License-Identifier: Apache-2.0
// Prints what the host does for one large case: making inputs, evaluating the reference, comparing.
//
//   bench/run reference --task tasks/layernorm --case timed/2|held_out/0 --target sm_90a [--repeats
//   3]

#include "verifier/reference.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task.h"
#include "verifier/inputs.h"
#include "verifier/output_judge.h"
#include "verifier/reference_server.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kHeldOutBytes = std::int64_t{256} << 20;  // As for a GPU.

TaskFiles ReadFolder(const std::string& folder) {
  TaskFiles files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return files;
}

template <typename Body>
auto Timed(const char* what, const Body& body) {
  const auto start = Clock::now();
  auto result = body();
  std::printf("%10.1f ms %s\n",
              std::chrono::duration<double, std::milli>(Clock::now() - start).count(), what);
  return result;
}

absl::Status Run(const std::string& folder, const std::string& label,
                 const std::string& target_name, const std::string& runner,
                 const std::string& cache, int repeats) {
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(const auto task, Task::Parse(ReadFolder(folder), &problems));
  FETTLE_ASSIGN_OR_RETURN(const Target target, FindTarget(target_name));
  std::optional<BoundCase> found;
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    FETTLE_ASSIGN_OR_RETURN(
        const auto cases, Timed(set == CaseSet::kTimed ? "bind timed cases" : "bind checked cases",
                                [&] { return task->BindCases(set, 1, target); }));
    for (const BoundCase& one : cases) {
      if (one.label == label) found = one;
    }
  }
  if (label.starts_with("held_out/")) {
    FETTLE_ASSIGN_OR_RETURN(const auto drawn, Timed("draw held-out cases", [&] {
                              return task->DrawHeldOut(
                                  7, kHeldOutBytes, [](const BoundCase&) { return std::string(); });
                            }));
    for (const BoundCase& one : drawn) {
      if (one.label == label) found = one;
    }
  }
  if (!found) return absl::NotFoundError("the task has no such case for this target");
  ReferenceOptions options;
  options.start = PlainReferenceStarter(runner);
  options.cache_dir = cache;
  FETTLE_ASSIGN_OR_RETURN(const auto reference, Timed("build the reference", [&] {
                            return Reference::Create(ReferenceSourceOf(*task), std::move(options));
                          }));
  std::printf("%s: %s\n", label.c_str(), found->Describe().c_str());
  for (int i = 0; i < repeats; ++i) {
    const InputSpec spec{static_cast<std::uint64_t>(1000 + i)};
    FETTLE_ASSIGN_OR_RETURN(const auto inputs, Timed("make inputs", [&] {
                              return MakeInputs(*found, spec, task->files());
                            }));
    if (!inputs.empty()) {
      Timed("SHA-256 of the first input", [&] {
        return Sha256Hex({reinterpret_cast<const char*>(inputs[0].data()), inputs[0].size()});
      });
    }
    FETTLE_ASSIGN_OR_RETURN(const auto expected, Timed("evaluate the reference, fresh", [&] {
                              return reference->Evaluate(*found, spec);
                            }));
    FETTLE_RETURN_IF_ERROR(
        Timed("evaluate it again", [&] { return reference->Evaluate(*found, spec); }).status());
    std::printf("%10.1f MB of expected values\n", static_cast<double>(expected->bytes()) / 1e6);
    std::vector<std::vector<std::uint8_t>> outputs;
    for (const std::int64_t index : OutputTensors(*found)) {
      outputs.emplace_back(static_cast<std::size_t>(
          StorageBytes(found->tensors[static_cast<std::size_t>(index)].dtype,
                       found->tensors[static_cast<std::size_t>(index)].elements())));
    }
    OutputJudge judge(*reference);
    FETTLE_RETURN_IF_ERROR(
        Timed("compare (zeros)", [&] { return judge.Judge(*found, spec, outputs); }).status());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  // Started by itself, as the process that calls the reference.
  if (argc == 3 && std::string_view(argv[1]) == "--reference") {
    return fettle::ServeReference(std::atoi(argv[2]));
  }
  std::string folder, label = "timed/0", target = "cpu", cache;
  int repeats = 2;
  CLI::App app("What the host does for one large case.");
  app.add_option("--task", folder)->required();
  app.add_option("--case", label);
  app.add_option("--target", target);
  app.add_option("--cache", cache, "folder for results (default: memory only)");
  app.add_option("--repeats", repeats);
  CLI11_PARSE(app, argc, argv);
  const std::string runner = std::filesystem::canonical("/proc/self/exe").string();
  const absl::Status status = fettle::Run(folder, label, target, runner, cache, repeats);
  if (!status.ok()) std::fprintf(stderr, "bench_reference: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
