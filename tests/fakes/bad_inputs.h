// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels and launches that no device can carry out: each gets its verdict, with the vendor's name
// for the error where a vendor reports one, and the evaluation after it is healthy. The test runs
// the table on the cpu, bench/bad_input on any device.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "core/status_macros.h"
#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/unit_runner.h"

namespace fettle {

// Printed names of what an entry may end as: "" is no verdict, a right kernel.
struct BadInput {
  const char* name;
  std::string source;
  nlohmann::json launch;                  // Overrides of the baseline's first launch.
  std::vector<nlohmann::json> workspace;  // Of the kernel.
  std::vector<std::string> cpu, gpu;      // Verdicts that are right; empty: not tried there.
  const char* cuda_error = "";            // In the message of the cuda device.
};

inline std::string Right(const std::string& before = "") { return before + "y[i] = 2 * x[i];"; }

inline std::vector<BadInput> BadInputs() {
  const nlohmann::json huge = {{"dtype", "f32"},
                               {"shape", nlohmann::json::array({"n + 300000000000"})}};
  std::string macros = "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n";
  macros += "#define C(x) B(B(A(x)))\n";  // Ten million copies of ten bytes.
  return {
      {.name = "block_2048",
       .source = TwiceKernel(Right()),
       .launch = {{"block", nlohmann::json::array({2048})}},
       .cpu = {"LAUNCH_ERROR"},
       .gpu = {"LAUNCH_ERROR"}},
      {.name = "shared_300k",
       .source = TwiceKernel(Right()),
       .launch = {{"shared", 300 * 1024}},
       .cpu = {"LAUNCH_ERROR"},
       .gpu = {"LAUNCH_ERROR"}},
      // A step with an empty grid is skipped, so nothing is written.
      {.name = "grid_0",
       .source = TwiceKernel(Right()),
       .launch = {{"grid", nlohmann::json::array({0})}},
       .cpu = {"INCORRECT"},
       .gpu = {"INCORRECT"}},
      {.name = "grid_beyond_y",
       .source = TwiceKernel(Right()),
       .launch = {{"grid", nlohmann::json::array({1, 70000})}},
       .cpu = {"LAUNCH_ERROR"},
       .gpu = {"LAUNCH_ERROR"}},
      {.name = "out_of_memory",
       .source = TwiceKernel(Right()),
       .workspace = {{{"huge", huge}}},
       .cpu = {"LAUNCH_ERROR"},
       .gpu = {"LAUNCH_ERROR"},
       .cuda_error = "CUDA_ERROR_OUT_OF_MEMORY"},
      {.name = "illegal_address",
       .source = TwiceKernel(Right("*reinterpret_cast<volatile float*>(1ULL << 50) = x[i];")),
       .cpu = {"CRASHED"},
       .gpu = {"CRASHED"},
       .cuda_error = "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {.name = "misaligned",
       .source = TwiceKernel(Right("*reinterpret_cast<volatile double*>(reinterpret_cast<char*>(y) "
                                   "+ 4 * (i & ~1) + 4) = 1;")),
       .cpu = {"", "INCORRECT", "CRASHED"},
       .gpu = {"CRASHED"},
       .cuda_error = "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {.name = "trap",
       .source = TwiceKernel(Right("if (i == 0) __trap();")),
       .cpu = {"CRASHED"},
       .gpu = {"CRASHED"},
       .cuda_error = "CUDA_ERROR_"},
      {.name = "assert",
       .source = TwiceKernel(Right("assert(i < 0);"), "#include <assert.h>\n"),
       .cpu = {"CRASHED", "REFUSED"},
       .gpu = {"CRASHED", "COMPILE_ERROR", "REFUSED"}},
      {.name = "printf_flood",
       .source =
           TwiceKernel(Right("for (int k = 0; k < 200; ++k) printf(\"check: pass %d\\n\", i);"),
                       "#include <stdio.h>\n"),
       .cpu = {"", "REFUSED", "CRASHED", "TIMEOUT", "COMPILE_ERROR"},
       .gpu = {"", "REFUSED", "COMPILE_ERROR"}},
      // The cpu's is UnitRunnerTest.SurvivesAnEndlessLoop.
      {.name = "endless",
       .source = TwiceKernel(Right("volatile int on = 1; while (on) {} ")),
       .gpu = {"TIMEOUT"}},
      // The cpu's compile bombs are in the bank (tests/cheats), which runs by ./dev long.
      {.name = "template_bomb",
       .source = TwiceKernel(Right("y[i] = Bomb<0>::v;"),
                             "template <int N> struct Bomb { static const int v = Bomb<N + 1>::v + "
                             "Bomb<N + 2>::v; };\n"),
       .gpu = {"COMPILE_ERROR"}},
      {.name = "macro_bomb",
       .source = TwiceKernel(Right("float v = 0; C(v += 1.0f;) "), macros),
       .gpu = {"COMPILE_ERROR", "REFUSED"}},
  };
}

// Runs entries of the table on the first device of a runner.
class BadInputLab {
 public:
  // `runner` must outlive this object.
  explicit BadInputLab(UnitRunner& runner) : runner_(runner), device_(runner.devices().front()) {}

  const DeviceInfo& device() const { return device_; }
  bool on_cpu() const { return device_.target.vendor == Vendor::kCpu; }

  // What is wrong with how the entry, or the honest kernel after it, ended; empty: nothing. Fills
  // `seen` with the verdict and its message.
  std::string Problem(const BadInput& input, std::string* seen) {
    const std::vector<std::string>& right = on_cpu() ? input.cpu : input.gpu;
    if (right.empty()) {
      *seen = "not tried here";
      return "";
    }
    const auto kernel = Under(input);
    if (!kernel.ok()) return std::string(kernel.status().message());
    const auto result = Evaluate(*kernel);
    if (!result.ok()) return "no verdict: " + std::string(result.status().message());
    const std::string verdict = VerdictOf(*result);
    const std::string message = result->verdict ? result->verdict->message : "right";
    *seen = fmt::format("{} {}", verdict.empty() ? "-" : verdict, message);
    if (std::find(right.begin(), right.end(), verdict) == right.end()) return "verdict " + *seen;
    if (device_.id.starts_with("cuda") && message.find(input.cuda_error) == std::string::npos) {
      return fmt::format("no {} in: {}", input.cuda_error, message);
    }
    const auto honest = Evaluate(
        TwiceUnderTest(*task_, device_.target.name,
                       TwiceKernel(fmt::format("y[i] = x[i] + x[i]; // after {}\n", input.name))));
    if (!honest.ok()) return "afterwards: " + std::string(honest.status().message());
    return honest->verdict ? "afterwards: " + honest->verdict->message : "";
  }

 private:
  static std::string VerdictOf(const UnitResult& result) {
    return result.verdict ? std::string(VerdictName(result.verdict->verdict)) : "";
  }
  absl::StatusOr<KernelUnderTest> Under(const BadInput& input) {
    if (task_ == nullptr) {
      std::vector<TaskProblem> problems;
      FETTLE_ASSIGN_OR_RETURN(task_, Task::Parse(TwiceTask(), &problems));
      FETTLE_ASSIGN_OR_RETURN(blob_, blobs_.Put(PackTaskFiles(TwiceTask())));
    }
    KernelUnderTest kernel = TwiceUnderTest(*task_, device_.target.name, input.source);
    nlohmann::json block = ToJson(kernel.kernel);
    if (!input.launch.is_null()) block["launches"][0].update(input.launch);
    for (const nlohmann::json& one : input.workspace) block["workspace"].push_back(one);
    std::vector<TaskProblem> problems;
    const auto parsed = task_->ParseKernelSpec(block, &problems);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{} {}", std::string(parsed.status().message()), FormatProblems(problems)));
    }
    kernel.kernel = *parsed;
    kernel.digest =
        CandidateDigest(task_->digest(), device_.target.name, kernel.kernel, kernel.values);
    return kernel;
  }
  absl::StatusOr<UnitResult> Evaluate(const KernelUnderTest& kernel) {
    WorkUnit unit;
    unit.id = "bad-input";
    unit.task_digest = task_->digest();
    unit.task_blob = blob_;
    unit.target = device_.target.name;
    unit.candidate = kernel;
    unit.denominator = TwiceUnderTest(*task_, unit.target, task_->baseline().source);
    unit.seed = 5;
    unit.measure = false;
    return runner_.Run(unit, blobs_, {}, {});
  }

  UnitRunner& runner_;
  const DeviceInfo device_;
  MemoryBlobStore blobs_;
  std::shared_ptr<const Task> task_;
  std::string blob_;
};

}  // namespace fettle
