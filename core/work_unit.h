// SPDX-License-Identifier: Apache-2.0
#pragma once

// One leased piece of work and its result: the JSON documents that server and worker exchange.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/evidence.h"
#include "core/task.h"
#include "core/verdict.h"

namespace fettle {

enum class UnitKind { kRegister, kCompile, kEvaluate, kConfirm, kRerun };
std::string_view UnitKindName(UnitKind kind);
std::optional<UnitKind> ParseUnitKind(std::string_view name);

// A kernel with one value per tunable: exactly one thing to compile (per dtype).
struct KernelUnderTest {
  std::string digest;  // CandidateDigest.
  KernelSpec kernel;
  TunableValues values;
};

// Reason of the verdict on a unit that reached its cap of device time.
inline constexpr char kDeviceTimeReason[] = "device_time";

struct WorkUnit {
  std::string id;
  int attempt = 1;
  UnitKind kind = UnitKind::kEvaluate;
  std::string job_id;       // Empty for units outside any job (`fettle try`, `fettle check`).
  std::string task_digest;  // The task's files are the blob `task_blob` (TaskFiles as JSON).
  std::string task_blob;
  std::string target;
  std::string device_model;     // Nonempty: only a device of this model may measure it.
  KernelUnderTest candidate;    // kRegister: unused (the baseline is meant).
  KernelUnderTest denominator;  // What the candidate is compared with, beside it in one process.
  std::optional<KernelUnderTest> incumbent;  // kConfirm: also measured against this one.
  double incumbent_ratio = 1;  // Best ratio over the denominator so far; screening drops below it.
  bool screen = true;          // kEvaluate: screen before measuring in full.
  bool measure = true;         // False: verify only.
  bool check_mode = false;  // kEvaluate: the checked cases, then the cpu check mode; nothing else.
  bool counters = false;    // Also run it once under the vendor's profiler.
  double duty_span_s = 0;   // Above 0: also run it at several duty ratios, for so long each.
  std::uint64_t seed = 0;   // Inputs, order. Fresh per unit; secret until the job ends.
  std::uint64_t held_out_seed = 0;  // kConfirm, kRegister: draws the held-out cases.
  // kRegister: seeds of the evaluations to come, whose inputs a GPU is to have ready.
  std::vector<std::uint64_t> search_seeds;
  std::string only_case;              // `fettle try --case`: this label alone.
  double time_cap_s = 20;             // Per timed case.
  std::int64_t deadline_ms = 120000;  // For the whole unit, from its lease.
  // What another worker compiled of it: the blob of each entry of the compile cache, by its key.
  std::map<std::string, std::string> compiled;
  // The most device time that it may take: it ends there with UNMEASURABLE, kDeviceTimeReason. 0:
  // no limit.
  std::int64_t device_cap_ms = 0;
};

// One compiled build of a kernel (a family member, a specialized dim).
struct BuildRecord {
  std::string key;          // Task::BuildInputs::key.
  std::string code_object;  // Blob digest; empty when rejected.
  std::vector<std::string> entries, symbols;
  std::string compiler;
  bool cache_hit = false;
  std::int64_t elapsed_ns = 0;
  std::string log;             // <= 64 KiB.
  nlohmann::json diagnostics;  // Array of {file, line, column, severity, text}.
  nlohmann::json facts;        // Code-object facts; object, may be empty.
};

struct UnitResult {
  std::string unit_id;
  int attempt = 1;
  // Set when a stage decided (COMPILE_ERROR, INCORRECT, NO_WIN/screened, UNMEASURABLE, REFUSED
  // ...). Unset: everything passed and the judge decides from the measurements.
  std::optional<VerdictRecord> verdict;
  std::vector<BuildRecord> builds;
  std::optional<VerificationReport> verification;
  std::optional<Measurement> screening;
  std::optional<Measurement> measurement;  // Against the denominator.
  std::optional<Measurement> against_incumbent;
  std::int64_t compile_ns = 0, device_ns = 0, wall_ns = 0;
  nlohmann::json environment;  // host, fettle version, device, driver, compiler.
  nlohmann::json counters;     // WorkUnit::counters: profiler/counters.h; else null.
  nlohmann::json duty;  // WorkUnit::duty_span_s: {"case", "points": profiler/duty.h}, or null.
  nlohmann::json registration;  // kRegister: mutations tried and rejected, lint findings.
  std::map<std::string, std::string> compiled;  // kCompile: as WorkUnit's.
};

nlohmann::json ToJson(const WorkUnit& unit);
absl::StatusOr<WorkUnit> WorkUnitFromJson(const nlohmann::json& json);
nlohmann::json ToJson(const UnitResult& result);
absl::StatusOr<UnitResult> UnitResultFromJson(const nlohmann::json& json);

// TaskFiles as one blob: {"files": {path: base64}} in canonical JSON.
std::string PackTaskFiles(const TaskFiles& files);
absl::StatusOr<TaskFiles> UnpackTaskFiles(std::string_view blob);

}  // namespace fettle
