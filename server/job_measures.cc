// SPDX-License-Identifier: Apache-2.0
#include "server/job_measures.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "judge/statistics.h"
#include "server/limits.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void AddMeasurement(const std::optional<Measurement>& measurement, const char* against,
                    EvaluationRow& row) {
  if (!measurement.has_value()) return;
  for (const CaseMeasurement& from : measurement->cases) {
    MeasurementRow to;
    to.against = against;
    to.case_label = from.case_label;
    to.weight = from.weight;
    to.a_median_ns = from.a_median_ns;
    to.b_median_ns = from.b_median_ns;
    to.ratio = from.ratio;
    to.ratio_low = from.ratio_low;
    to.ratio_high = from.ratio_high;
    to.aa_spread = from.aa_spread;
    to.bytes_per_s = from.bytes_per_s;
    to.flops_per_s = from.flops_per_s;
    to.floor_ns = from.floor_ns;
    to.roofline_fraction = from.roofline_fraction;
    to.blocks = static_cast<std::int64_t>(from.block_log_ratios.size());
    to.discarded_blocks = from.discarded_blocks;
    row.measurements.push_back(std::move(to));
  }
}

bool IsHeldOut(std::string_view label) { return label.substr(0, 8) == "held_out"; }

}  // namespace

TunableValues ParseValues(std::string_view json_text) {
  TunableValues values;
  const Json json = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return values;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_integer()) values[name] = value.get<std::int64_t>();
  }
  return values;
}

double CombinedRatio(const Measurement& measurement) {
  const judge::LogRatioStats stats = judge::SummarizeMeasurement(measurement);
  return stats.blocks > 0 ? std::exp(stats.mean) : 0;
}

std::optional<std::int64_t> DeviceMsOf(const std::string& result_json) {
  if (result_json.size() > limits::kMaxResultJsonBytes) return std::nullopt;
  const Json result = ParseJson(result_json);
  if (!result.is_object() || !result.contains("device_ns") ||
      !result["device_ns"].is_number_integer()) {
    return std::nullopt;
  }
  return DeviceMs(result["device_ns"].get<std::int64_t>());
}

double RooflineFraction(const Measurement& measurement) {
  double sum = 0;
  double weights = 0;
  for (const CaseMeasurement& one : measurement.cases) {
    if (one.roofline_fraction <= 0) continue;
    sum += one.weight * one.roofline_fraction;
    weights += one.weight;
  }
  return weights > 0 ? sum / weights : 0;
}

VerdictRecord WithoutSecrets(VerdictRecord verdict) {
  if (!IsHeldOut(verdict.case_label)) return verdict;
  verdict.case_label = "held_out";
  Json kept = Json::object();
  if (verdict.evidence.is_object() && verdict.evidence.contains("class")) {
    kept["class"] = verdict.evidence["class"];
  }
  verdict.evidence = std::move(kept);
  return verdict;
}

nlohmann::json WithoutSecrets(nlohmann::json document) {
  if (document.is_array()) {
    for (Json& entry : document) entry = WithoutSecrets(std::move(entry));
    return document;
  }
  if (!document.is_object()) return document;
  for (const char* key : {"seed", "seeds", "held_out_seed"}) document.erase(key);
  const std::string label = TextOf(document, "case_label").empty() ? TextOf(document, "case")
                                                                   : TextOf(document, "case_label");
  if (IsHeldOut(label)) {
    document.erase("describe");
    if (document.contains("evidence")) {
      const Json& evidence = document["evidence"];
      Json kept = Json::object();
      if (evidence.is_object() && evidence.contains("class")) kept["class"] = evidence["class"];
      document["evidence"] = std::move(kept);
    }
  }
  for (auto& [key, value] : document.items()) value = WithoutSecrets(std::move(value));
  return document;
}

EvaluationRow MakeEvaluation(const UnitRow& unit, const UnitResult& result, std::string result_json,
                             const std::string& fettle_version, std::int64_t now_ns) {
  EvaluationRow row;
  row.unit_id = unit.id;
  row.attempt = unit.attempt;
  row.job_id = unit.job_id;
  row.ordinal = unit.ordinal;
  row.kind = unit.kind;
  if (result.verdict.has_value()) row.verdict = std::string(VerdictName(result.verdict->verdict));
  if (result.verification.has_value()) row.verification_passed = result.verification->passed;
  row.compile_ns = result.compile_ns;
  row.device_ns = result.device_ns;
  row.wall_ns = result.wall_ns;
  row.worker_id = unit.worker_id;
  row.host = TextOf(result.environment, "host");
  const Json device = result.environment.is_object() && result.environment.contains("device")
                          ? result.environment["device"]
                          : Json();
  row.device_model = device.is_string() ? device.get<std::string>() : TextOf(device, "model");
  row.driver = TextOf(result.environment, "driver");
  if (row.driver.empty()) row.driver = TextOf(device, "driver");
  row.compiler = TextOf(result.environment, "compiler");
  row.fettle_version = fettle_version;
  row.stored_ns = now_ns;
  row.result_json = std::move(result_json);
  AddMeasurement(result.screening, "screening", row);
  AddMeasurement(result.measurement, "denominator", row);
  AddMeasurement(result.against_incumbent, "incumbent", row);
  for (const BuildRecord& from : result.builds) {
    BuildRow build;
    build.build_key = from.key;
    build.code_object = from.code_object;
    build.compiler = from.compiler;
    build.cache_hit = from.cache_hit;
    build.elapsed_ns = from.elapsed_ns;
    const bool emulated =
        device.is_object() && device.contains("emulated") && device["emulated"] == true;
    build.status = !result.verification.has_value() ? "compiled_only"
                   : emulated                       ? "emulated"
                                                    : "run";
    if (row.compiler.empty()) row.compiler = from.compiler;
    row.builds.push_back(std::move(build));
  }
  return row;
}

}  // namespace fettle
