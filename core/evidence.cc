// SPDX-License-Identifier: Apache-2.0
#include "core/evidence.h"

#include "core/json_reader.h"

namespace fettle {
namespace {

nlohmann::json ToJson(const OutputErrors& errors) {
  return {{"output", errors.output},
          {"worst", JsonNumber(errors.worst)},
          {"rms", JsonNumber(errors.rms)},
          {"reference_rms", JsonNumber(errors.reference_rms)},
          {"mismatches", errors.mismatches},
          {"compared", errors.compared},
          {"first_index", errors.first_index},
          {"expected", JsonNumber(errors.expected)},
          {"actual", JsonNumber(errors.actual)}};
}

absl::StatusOr<OutputErrors> OutputErrorsFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "output errors");
  OutputErrors errors;
  reader.Get("output", errors.output);
  reader.Get("worst", errors.worst);
  reader.Get("rms", errors.rms);
  reader.Get("reference_rms", errors.reference_rms);
  reader.Get("mismatches", errors.mismatches);
  reader.Get("compared", errors.compared);
  reader.Get("first_index", errors.first_index);
  reader.Get("expected", errors.expected);
  reader.Get("actual", errors.actual);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return errors;
}

nlohmann::json ToJson(const CaseReport& report) {
  nlohmann::json outputs = nlohmann::json::array();
  for (const auto& errors : report.outputs) outputs.push_back(ToJson(errors));
  return {{"case", report.case_label},     {"describe", report.describe},
          {"passed", report.passed},       {"unsupported", report.unsupported},
          {"outputs", std::move(outputs)}, {"checks", report.checks}};
}

absl::StatusOr<CaseReport> CaseReportFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "case report");
  CaseReport report;
  reader.Get("case", report.case_label);
  reader.GetOptional("describe", report.describe);
  reader.Get("passed", report.passed);
  reader.GetOptional("unsupported", report.unsupported);
  reader.ForEach("outputs", [&](const nlohmann::json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(OutputErrors errors, OutputErrorsFromJson(entry));
    report.outputs.push_back(std::move(errors));
    return absl::OkStatus();
  });
  reader.GetOptional("checks", report.checks);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return report;
}

nlohmann::json ToJson(const TimingBlock& block) {
  return {{"a_ns", JsonNumbers(block.a_ns)},
          {"b_ns", JsonNumbers(block.b_ns)},
          {"clock_mhz", JsonNumber(block.clock_mhz)},
          {"power_w", JsonNumber(block.power_w)},
          {"temperature_c", JsonNumber(block.temperature_c)},
          {"discarded", block.discarded},
          {"discard_reason", block.discard_reason}};
}

absl::StatusOr<TimingBlock> TimingBlockFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "timing block");
  TimingBlock block;
  reader.Get("a_ns", block.a_ns);
  reader.Get("b_ns", block.b_ns);
  reader.Get("clock_mhz", block.clock_mhz);
  reader.Get("power_w", block.power_w);
  reader.Get("temperature_c", block.temperature_c);
  reader.Get("discarded", block.discarded);
  reader.Get("discard_reason", block.discard_reason);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return block;
}

nlohmann::json ToJson(const CaseMeasurement& measurement) {
  nlohmann::json blocks = nlohmann::json::array();
  for (const auto& block : measurement.blocks) blocks.push_back(ToJson(block));
  return {{"case", measurement.case_label},
          {"weight", JsonNumber(measurement.weight)},
          {"blocks", std::move(blocks)},
          {"block_log_ratios", JsonNumbers(measurement.block_log_ratios)},
          {"a_median_ns", JsonNumber(measurement.a_median_ns)},
          {"b_median_ns", JsonNumber(measurement.b_median_ns)},
          {"ratio", JsonNumber(measurement.ratio)},
          {"ratio_low", JsonNumber(measurement.ratio_low)},
          {"ratio_high", JsonNumber(measurement.ratio_high)},
          {"aa_spread", JsonNumber(measurement.aa_spread)},
          {"bytes_per_s", JsonNumber(measurement.bytes_per_s)},
          {"flops_per_s", JsonNumber(measurement.flops_per_s)},
          {"roofline_fraction", JsonNumber(measurement.roofline_fraction)},
          {"floor_ns", JsonNumber(measurement.floor_ns)},
          {"launches_per_sample", measurement.launches_per_sample},
          {"discarded_blocks", measurement.discarded_blocks}};
}

absl::StatusOr<CaseMeasurement> CaseMeasurementFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "case measurement");
  CaseMeasurement out;
  reader.Get("case", out.case_label);
  reader.Get("weight", out.weight);
  reader.ForEach("blocks", [&](const nlohmann::json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(TimingBlock block, TimingBlockFromJson(entry));
    out.blocks.push_back(std::move(block));
    return absl::OkStatus();
  });
  reader.Get("block_log_ratios", out.block_log_ratios);
  reader.Get("a_median_ns", out.a_median_ns);
  reader.Get("b_median_ns", out.b_median_ns);
  reader.Get("ratio", out.ratio);
  reader.Get("ratio_low", out.ratio_low);
  reader.Get("ratio_high", out.ratio_high);
  reader.Get("aa_spread", out.aa_spread);
  reader.Get("bytes_per_s", out.bytes_per_s);
  reader.Get("flops_per_s", out.flops_per_s);
  reader.Get("roofline_fraction", out.roofline_fraction);
  reader.Get("floor_ns", out.floor_ns);
  reader.Get("launches_per_sample", out.launches_per_sample);
  reader.Get("discarded_blocks", out.discarded_blocks);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return out;
}

}  // namespace

nlohmann::json ToJson(const VerificationReport& report) {
  nlohmann::json cases = nlohmann::json::array();
  for (const auto& entry : report.cases) cases.push_back(ToJson(entry));
  nlohmann::json json = {{"passed", report.passed},
                         {"cases", std::move(cases)},
                         {"seeds", report.seeds},
                         {"check_mode", report.check_mode},
                         {"warnings", report.warnings}};
  if (!report.sanitizers.empty()) json["sanitizers"] = report.sanitizers;
  if (!report.passed) json["failure"] = ToJson(report.failure);
  return json;
}

absl::StatusOr<VerificationReport> VerificationReportFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "verification report");
  VerificationReport report;
  reader.Get("passed", report.passed);
  reader.ForEach("cases", [&](const nlohmann::json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(CaseReport parsed, CaseReportFromJson(entry));
    report.cases.push_back(std::move(parsed));
    return absl::OkStatus();
  });
  reader.GetOptional("seeds", report.seeds);
  reader.GetOptional("check_mode", report.check_mode);
  reader.GetOptional("warnings", report.warnings);
  const nlohmann::json sanitizers = reader.OptionalChild("sanitizers", nlohmann::json::object());
  if (!sanitizers.is_object()) reader.Fail("sanitizers", "must be an object");
  for (const auto& [tool, said] : sanitizers.items()) {
    if (!said.is_string()) {
      reader.Fail("sanitizers", "must hold text only");
      break;
    }
    report.sanitizers[tool] = said.get<std::string>();
  }
  if (reader.ok() && !report.passed)
    reader.Nested("failure", report.failure, VerdictRecordFromJson);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return report;
}

nlohmann::json ToJson(const Measurement& measurement) {
  nlohmann::json cases = nlohmann::json::array();
  for (const auto& entry : measurement.cases) cases.push_back(ToJson(entry));
  return {{"method", measurement.method},
          {"cases", std::move(cases)},
          {"calibration_error", JsonNumber(measurement.calibration_error)},
          {"device_ns", JsonNumber(measurement.device_ns)},
          {"device", measurement.device}};
}

absl::StatusOr<Measurement> MeasurementFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "measurement");
  Measurement measurement;
  reader.Get("method", measurement.method);
  reader.ForEach("cases", [&](const nlohmann::json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(CaseMeasurement parsed, CaseMeasurementFromJson(entry));
    measurement.cases.push_back(std::move(parsed));
    return absl::OkStatus();
  });
  reader.Get("calibration_error", measurement.calibration_error);
  reader.Get("device_ns", measurement.device_ns);
  measurement.device = reader.OptionalChild("device", nullptr);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return measurement;
}

}  // namespace fettle
