// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "compiler/kernel_compiler.h"
#include "core/task.h"
#include "core/work_unit.h"
#include "device/runner_session.h"
#include "worker/compiled_ahead.h"
#include "worker/lane_gate.h"

namespace fettle {

// One compiled build of a kernel.
struct Build {
  std::string key;  // BuildInputs::key and mode.
  std::string code_object;
  std::map<std::string, std::string> symbols;  // Entry -> symbol.
  BuildRecord record;                          // code_object digest left to the caller.
};

// A kernel compiled for some cases, and its modules in one session.
struct BuiltKernel {
  KernelUnderTest kernel;
  CompileMode mode = CompileMode::kFast;
  int lanes = 32;
  std::map<std::string, Build> builds;          // By BuildInputs::key.
  std::map<std::string, std::int64_t> modules;  // By key; loaded ones.
  // Set when the compiler rejected a build: that build's record.
  std::optional<BuildRecord> rejected;
  std::int64_t compile_ns = 0;
};

struct BuildContext {
  const Task* task = nullptr;
  Target target;
  KernelCompiler* compiler = nullptr;
  LaneGate* gate = nullptr;
  std::stop_token stop;
  CompiledAhead* ahead = nullptr;  // May be null: nothing comes from other workers.
  bool keep = false;               // Stores what is compiled for other workers, too.
};

// Compiles what the cases need, builds at once as the gate allows. A rejection ends it: `rejected`.
// Errors: kInvalidArgument (an expression of the kernel fails for a case), kCancelled,
// kUnavailable.
absl::StatusOr<BuiltKernel> BuildKernel(const BuildContext& context, const KernelUnderTest& kernel,
                                        const std::vector<BoundCase>& cases, CompileMode mode,
                                        int lanes);

// The build that a case uses; any for a case that launches nothing. kInternal: there is none.
absl::StatusOr<const Build*> FindBuild(const BuildContext& context, const BuiltKernel& built,
                                       const BoundCase& bound_case);

// The kernel ready to call for a case, loading its module on first use. kInvalidArgument: the
// launch plan does not bind for this case (limits of the device among them). Else errors of
// LoadModule.
absl::StatusOr<RunnableKernel> MakeRunnable(const BuildContext& context, BuiltKernel& built,
                                            const BoundCase& bound_case, RunnerSession& session);

}  // namespace fettle
