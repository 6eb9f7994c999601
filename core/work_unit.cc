// SPDX-License-Identifier: Apache-2.0
#include "core/work_unit.h"

#include <array>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/digest.h"
#include "core/json_reader.h"
#include "core/json_text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kKinds = {"register", "compile", "evaluate", "confirm",
                                                    "rerun"};

json ToJson(const KernelUnderTest& kernel) {
  json values = json::object();
  for (const auto& [name, value] : kernel.values) values[name] = value;
  return {{"digest", kernel.digest}, {"kernel", ToJson(kernel.kernel)}, {"values", values}};
}

absl::StatusOr<KernelUnderTest> KernelUnderTestFromJson(const json& in) {
  JsonReader reader(in, "kernel under test");
  KernelUnderTest out;
  reader.Get("digest", out.digest);
  reader.Nested("kernel", out.kernel, KernelSpecFromJson);
  const json& values = reader.Child("values");
  if (reader.ok() && !values.is_object()) reader.Fail("values", "must be an object");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  for (auto it = values.begin(); it != values.end(); ++it) {
    if (!it->is_number_integer()) {
      return absl::InvalidArgumentError("kernel under test.values: must hold integers");
    }
    out.values[it.key()] = it->get<std::int64_t>();
  }
  return out;
}

json ToJson(const BuildRecord& build) {
  return {{"key", build.key},
          {"code_object", build.code_object},
          {"entries", build.entries},
          {"symbols", build.symbols},
          {"compiler", build.compiler},
          {"cache_hit", build.cache_hit},
          {"elapsed_ns", build.elapsed_ns},
          {"log", build.log},
          {"diagnostics", build.diagnostics.is_array() ? build.diagnostics : json::array()},
          {"facts", build.facts.is_object() ? build.facts : json::object()}};
}

absl::StatusOr<BuildRecord> BuildRecordFromJson(const json& in) {
  JsonReader reader(in, "build");
  BuildRecord out;
  reader.Get("key", out.key);
  reader.Get("code_object", out.code_object);
  reader.Get("entries", out.entries);
  reader.Get("symbols", out.symbols);
  reader.Get("compiler", out.compiler);
  reader.GetOptional("cache_hit", out.cache_hit);
  reader.GetOptional("elapsed_ns", out.elapsed_ns);
  reader.GetOptional("log", out.log);
  out.diagnostics = reader.OptionalChild("diagnostics", json::array());
  out.facts = reader.OptionalChild("facts", json::object());
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return out;
}

absl::StatusOr<std::map<std::string, std::string>> CompiledFromJson(JsonReader& reader) {
  const json in = reader.OptionalChild("compiled", json::object());
  std::map<std::string, std::string> out;
  for (auto it = in.begin(); in.is_object() && it != in.end(); ++it) {
    if (!it->is_string()) {
      return absl::InvalidArgumentError("compiled: must be an object of blobs by key");
    }
    out[it.key()] = it->get<std::string>();
  }
  return out;
}

}  // namespace

std::string_view UnitKindName(UnitKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::optional<UnitKind> ParseUnitKind(std::string_view name) {
  return FindName<UnitKind>(kKinds, name);
}

json ToJson(const WorkUnit& unit) {
  json out = {{"id", unit.id},
              {"attempt", unit.attempt},
              {"kind", UnitKindName(unit.kind)},
              {"job_id", unit.job_id},
              {"task_digest", unit.task_digest},
              {"task_blob", unit.task_blob},
              {"target", unit.target},
              {"device_model", unit.device_model},
              {"candidate", ToJson(unit.candidate)},
              {"denominator", ToJson(unit.denominator)},
              {"incumbent_ratio", JsonNumber(unit.incumbent_ratio)},
              {"screen", unit.screen},
              {"measure", unit.measure},
              {"check_mode", unit.check_mode},
              {"seed", unit.seed},
              {"held_out_seed", unit.held_out_seed},
              {"only_case", unit.only_case},
              {"time_cap_s", JsonNumber(unit.time_cap_s)},
              {"deadline_ms", unit.deadline_ms}};
  if (unit.device_cap_ms > 0) out["device_cap_ms"] = unit.device_cap_ms;
  if (!unit.search_seeds.empty()) out["search_seeds"] = unit.search_seeds;
  if (unit.incumbent) out["incumbent"] = ToJson(*unit.incumbent);
  if (unit.counters) out["counters"] = true;
  if (!unit.compiled.empty()) out["compiled"] = unit.compiled;
  if (unit.duty_span_s > 0) out["duty_span_s"] = JsonNumber(unit.duty_span_s);
  return out;
}

absl::StatusOr<WorkUnit> WorkUnitFromJson(const json& in) {
  JsonReader reader(in, "work unit");
  WorkUnit unit;
  reader.Get("id", unit.id);
  reader.Get("attempt", unit.attempt);
  unit.kind = reader.Enum("kind", ParseUnitKind, UnitKind::kEvaluate);
  reader.Get("job_id", unit.job_id);
  reader.Get("task_digest", unit.task_digest);
  reader.Get("task_blob", unit.task_blob);
  reader.Get("target", unit.target);
  reader.Get("device_model", unit.device_model);
  reader.Nested("candidate", unit.candidate, KernelUnderTestFromJson);
  reader.Nested("denominator", unit.denominator, KernelUnderTestFromJson);
  reader.NestedOptional("incumbent", unit.incumbent, KernelUnderTestFromJson);
  reader.Get("incumbent_ratio", unit.incumbent_ratio);
  reader.Get("screen", unit.screen);
  reader.Get("measure", unit.measure);
  reader.Get("check_mode", unit.check_mode);
  reader.GetOptional("counters", unit.counters);
  reader.GetOptional("duty_span_s", unit.duty_span_s);
  reader.Get("seed", unit.seed);
  reader.Get("held_out_seed", unit.held_out_seed);
  reader.GetOptional("search_seeds", unit.search_seeds);
  reader.Get("only_case", unit.only_case);
  reader.Get("time_cap_s", unit.time_cap_s);
  reader.Get("deadline_ms", unit.deadline_ms);
  FETTLE_ASSIGN_OR_RETURN(unit.compiled, CompiledFromJson(reader));
  reader.GetOptional("device_cap_ms", unit.device_cap_ms);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return unit;
}

json ToJson(const UnitResult& result) {
  json builds = json::array();
  for (const BuildRecord& build : result.builds) builds.push_back(ToJson(build));
  json out = {{"unit_id", result.unit_id},         {"attempt", result.attempt},
              {"builds", std::move(builds)},       {"compile_ns", result.compile_ns},
              {"device_ns", result.device_ns},     {"wall_ns", result.wall_ns},
              {"environment", result.environment}, {"registration", result.registration}};
  if (result.verdict) out["verdict"] = ToJson(*result.verdict);
  if (result.verification) out["verification"] = ToJson(*result.verification);
  if (result.screening) out["screening"] = ToJson(*result.screening);
  if (result.measurement) out["measurement"] = ToJson(*result.measurement);
  if (result.against_incumbent) out["against_incumbent"] = ToJson(*result.against_incumbent);
  if (!result.counters.is_null()) out["counters"] = result.counters;
  if (!result.duty.is_null()) out["duty"] = result.duty;
  if (!result.compiled.empty()) out["compiled"] = result.compiled;
  return out;
}

absl::StatusOr<UnitResult> UnitResultFromJson(const json& in) {
  JsonReader reader(in, "unit result");
  UnitResult result;
  reader.Get("unit_id", result.unit_id);
  reader.Get("attempt", result.attempt);
  reader.NestedOptional("verdict", result.verdict, VerdictRecordFromJson);
  reader.ForEach("builds", [&](const json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(BuildRecord build, BuildRecordFromJson(entry));
    result.builds.push_back(std::move(build));
    return absl::OkStatus();
  });
  reader.NestedOptional("verification", result.verification, VerificationReportFromJson);
  reader.NestedOptional("screening", result.screening, MeasurementFromJson);
  reader.NestedOptional("measurement", result.measurement, MeasurementFromJson);
  reader.NestedOptional("against_incumbent", result.against_incumbent, MeasurementFromJson);
  reader.Get("compile_ns", result.compile_ns);
  reader.Get("device_ns", result.device_ns);
  reader.Get("wall_ns", result.wall_ns);
  result.environment = reader.OptionalChild("environment", nullptr);
  result.registration = reader.OptionalChild("registration", nullptr);
  result.counters = reader.OptionalChild("counters", nullptr);
  result.duty = reader.OptionalChild("duty", nullptr);
  FETTLE_ASSIGN_OR_RETURN(result.compiled, CompiledFromJson(reader));
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return result;
}

std::string PackTaskFiles(const TaskFiles& files) {
  json coded = json::object();
  for (const auto& [path, bytes] : files) coded[path] = Base64Encode(bytes);
  return CanonicalJson({{"files", std::move(coded)}});
}

absl::StatusOr<TaskFiles> UnpackTaskFiles(std::string_view blob) {
  const json in = ParseJson(blob);
  JsonReader reader(in, "task files");
  const json& coded = reader.Child("files");
  if (reader.ok() && !coded.is_object()) reader.Fail("files", "must be an object");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  TaskFiles files;
  for (auto it = coded.begin(); it != coded.end(); ++it) {
    if (!it->is_string()) {
      return absl::InvalidArgumentError(fmt::format("task files.{}: must be base64", it.key()));
    }
    FETTLE_ASSIGN_OR_RETURN(files[it.key()], Base64Decode(it->get_ref<const std::string&>()));
  }
  return files;
}

}  // namespace fettle
