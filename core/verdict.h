// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

// DESIGN.md 2. A failure of the infrastructure is no verdict (absl::Status instead).
enum class Verdict {
  kWin,
  kNoWin,
  kAmbiguous,
  kIncorrect,
  kCompileError,
  kLaunchError,
  kTimeout,
  kCrashed,
  kUnmeasurable,
  kRefused,
  kUnsupportedShape,
};
std::string_view VerdictName(Verdict verdict);  // "WIN", "NO_WIN", ...
std::optional<Verdict> ParseVerdict(std::string_view name);

enum class Stage { kPolicy, kCompile, kVerify, kScreen, kMeasure, kConfirm, kRegister };
std::string_view StageName(Stage stage);  // "policy", "compile", ...
std::optional<Stage> ParseStage(std::string_view name);

struct VerdictRecord {
  Verdict verdict = Verdict::kNoWin;
  Stage stage = Stage::kPolicy;
  // Stable snake_case code: "poison_survived", "input_modified", "guard_overwritten", "tolerance",
  // "error_budget", "class_mismatch", "nondeterministic", "screened", "not_faster", "shape_slower",
  // "not_confirmed", "policy_include", "compile_rejected", "crashed_signal", "deadline", ...
  std::string reason_code;
  std::string case_label;   // Empty when no single case decides; held-out cases as "held_out".
  std::string message;      // One or two sentences for a person.
  nlohmann::json evidence;  // Structured details for an agent; object.
};
nlohmann::json ToJson(const VerdictRecord& record);
absl::StatusOr<VerdictRecord> VerdictRecordFromJson(const nlohmann::json& json);

// Whether a verdict says something of the device at that moment and nothing of the kernel: too few
// or too unsteady samples, nothing to compare with. (What is faster than the hardware allows is the
// kernel's, and an emulator's times never count.)
bool NotMeasured(const VerdictRecord& verdict);

// Whether measuring once more may tell more: it was not measured, or a gain was seen and is not
// certain.
bool LeavesOpen(const VerdictRecord& verdict);

}  // namespace fettle
