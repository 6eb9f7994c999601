// SPDX-License-Identifier: Apache-2.0
#include "core/verdict.h"

#include <array>

#include "core/json_reader.h"

namespace fettle {
namespace {

constexpr std::array<std::string_view, 11> kVerdicts = {
    "WIN",     "NO_WIN",  "AMBIGUOUS",    "INCORRECT", "COMPILE_ERROR",    "LAUNCH_ERROR",
    "TIMEOUT", "CRASHED", "UNMEASURABLE", "REFUSED",   "UNSUPPORTED_SHAPE"};
constexpr std::array<std::string_view, 7> kStages = {"policy",  "compile", "verify",  "screen",
                                                     "measure", "confirm", "register"};

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}
std::optional<Verdict> ParseVerdict(std::string_view name) {
  return FindName<Verdict>(kVerdicts, name);
}
std::string_view StageName(Stage stage) { return kStages[static_cast<std::size_t>(stage)]; }
std::optional<Stage> ParseStage(std::string_view name) { return FindName<Stage>(kStages, name); }

nlohmann::json ToJson(const VerdictRecord& record) {
  nlohmann::json json = {
      {"verdict", VerdictName(record.verdict)},
      {"stage", StageName(record.stage)},
      {"reason_code", record.reason_code},
      {"message", record.message},
      {"evidence", record.evidence.is_object() ? record.evidence : nlohmann::json::object()}};
  if (!record.case_label.empty()) json["case"] = record.case_label;
  return json;
}

absl::StatusOr<VerdictRecord> VerdictRecordFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "verdict record");
  VerdictRecord record;
  record.verdict = reader.Enum("verdict", ParseVerdict, Verdict::kNoWin);
  record.stage = reader.Enum("stage", ParseStage, Stage::kPolicy);
  reader.Get("reason_code", record.reason_code);
  reader.GetOptional("case", record.case_label);
  reader.Get("message", record.message);
  record.evidence = reader.OptionalChild("evidence", nlohmann::json::object());
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return record;
}

bool NotMeasured(const VerdictRecord& verdict) {
  return verdict.verdict == Verdict::kUnmeasurable && verdict.reason_code != "below_floor" &&
         verdict.reason_code != "emulated";
}

bool LeavesOpen(const VerdictRecord& verdict) {
  return verdict.verdict == Verdict::kAmbiguous || NotMeasured(verdict);
}

}  // namespace fettle
