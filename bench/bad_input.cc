// SPDX-License-Identifier: Apache-2.0
// Kernels and launches that the device cannot carry out (tests/fakes/bad_inputs.h): the verdict of
// each, and whether the evaluation after it is healthy.
//
//   bench/run bad_input [--device cpu|cuda:0|hip:0]
//
// Ends with 1 when one has another verdict than it should, or harmed the next.

#include <cstdio>
#include <filesystem>

#include "compiler/gpu/gpu_compilers.h"
#include "tests/fakes/bad_inputs.h"
#include "worker/lane.h"
#include "worker/runner_client.h"

namespace fettle {
namespace {

// Code for another architecture, which a worker never loads by itself. Empty: refused as it must
// be.
std::string LoadForeignCode(const std::string& runner_path, const DeviceInfo& device,
                            std::string* seen) {
  if (!device.id.starts_with("cuda")) {
    *seen = "not tried here";
    return "";
  }
  const auto other = FindTarget(device.target.name == "sm_80" ? "sm_90a" : "sm_80");
  const auto compiler = FindGpuCompilerFor(*other, {});
  if (!compiler.ok()) return std::string(compiler.status().message());
  const auto compiled = (*compiler)->Compile(
      {.target = *other, .source = TwiceKernel("y[i] = 2 * x[i];"), .entries = {"twice"}}, {});
  if (!compiled.ok() || !compiled->accepted)
    return "the kernel does not compile for " + other->name;
  RunnerClient::Options options;
  options.sandbox = SandboxFor({.runner_path = runner_path}, device.id, {device});
  const auto runner = RunnerClient::Start(std::move(options), {});
  if (!runner.ok()) return std::string(runner.status().message());
  const auto loaded = (*runner)->LoadModule(compiled->code_object, compiled->symbols);
  *seen = loaded.ok() ? "loaded" : loaded.status().ToString();
  if (!absl::IsInvalidArgument(loaded.status())) return *seen;
  const absl::Status health = (*runner)->CheckHealth();
  return health.ok() ? "" : "afterwards: " + std::string(health.message());
}

int Main(int argc, char** argv) {
  UnitRunnerOptions options;
  options.device_ids = {argc == 3 && std::string(argv[1]) == "--device" ? argv[2] : "cpu"};
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  options.runner_path = self + "/fettle-runner";
  const auto runner = UnitRunner::Create(options);
  if (!runner.ok()) {
    std::fprintf(stderr, "bad_input: %s\n", runner.status().ToString().c_str());
    return 3;
  }
  BadInputLab lab(**runner);
  int wrong = 0;
  const auto report = [&wrong](const char* name, const std::string& problem,
                               const std::string& seen) {
    wrong += problem.empty() ? 0 : 1;
    std::printf("%-4s %-18s %s\n", problem.empty() ? "ok" : "BAD", name,
                (problem.empty() ? seen : problem).substr(0, 240).c_str());
    std::fflush(stdout);
  };
  for (const BadInput& input : BadInputs()) {
    std::string seen;
    const std::string problem = lab.Problem(input, &seen);
    report(input.name, problem, seen);
  }
  std::string seen;
  const std::string problem = LoadForeignCode(options.runner_path, lab.device(), &seen);
  report("foreign_code", problem, seen);
  std::printf("%d of %zu other than they should be\n", wrong, BadInputs().size() + 1);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
