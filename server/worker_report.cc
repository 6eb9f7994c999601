// SPDX-License-Identifier: Apache-2.0
#include "server/worker_report.h"

#include <algorithm>
#include <cmath>

#include "core/json_text.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/limits.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr const char* kAaFigures[] = {"candidates", "confirmations", "false_wins", "ratio_low",
                                      "ratio_high", "spread_median", "spread_p95", "measured_ns"};

std::string NameOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  return CutText(ValidUtf8(found->get<std::string>()), limits::kMaxNameBytes);
}

double RateOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const double rate = found->get<double>();
  return std::isfinite(rate) && rate > 0 ? rate : 0;
}

// The known figures alone: what a worker sends beside them is not kept.
std::string AaOf(const Json& device) {
  const auto aa = device.find("aa");
  if (aa == device.end() || !aa->is_object()) return "";
  Json figures = Json::object();
  for (const char* key : kAaFigures) {
    const auto found = aa->find(key);
    if (found == aa->end() || !found->is_number()) return "";
    figures[key] = *found;
  }
  return figures.dump();
}

}  // namespace

absl::StatusOr<std::vector<DeviceReport>> ParseDeviceReports(const std::string& state_json) {
  std::vector<DeviceReport> reports;
  if (state_json.empty()) return reports;
  if (state_json.size() > limits::kMaxWorkerStateBytes) {
    return errors::TooLong("heartbeat.state_json", state_json.size(), limits::kMaxWorkerStateBytes);
  }
  const Json state = ParseJson(state_json);
  if (!state.is_object()) return errors::BadField("heartbeat.state_json", "must be a JSON object");
  const auto devices = state.find("devices");
  if (devices == state.end()) return reports;
  if (!devices->is_array()) {
    return errors::BadField("heartbeat.state_json.devices", "must be an array of objects");
  }
  for (const Json& device : *devices) {
    if (!device.is_object() || NameOf(device, "id").empty()) {
      return errors::BadField("heartbeat.state_json.devices", "each must be an object with an id");
    }
    if (reports.size() >= static_cast<std::size_t>(limits::kMaxSlots)) break;
    DeviceReport report;
    DeviceReportRow& row = report.row;
    row.device_id = NameOf(device, "id");
    row.model = NameOf(device, "model");
    row.target = NameOf(device, "target");
    row.driver = NameOf(device, "driver");
    row.uuid = NameOf(device, "uuid");
    row.partition = NameOf(device, "partition");
    row.health = NameOf(device, "health");
    if (row.health != "suspect" && row.health != "quarantined") row.health = "ok";
    if (const auto ceilings = device.find("ceilings");
        ceilings != device.end() && ceilings->is_object()) {
      row.bytes_per_s = RateOf(*ceilings, "bytes_per_s");
      row.cached_bytes_per_s = RateOf(*ceilings, "cached_bytes_per_s");
      row.flops_per_s = RateOf(*ceilings, "flops_per_s");
      row.flops8_per_s = RateOf(*ceilings, "flops8_per_s");
    }
    row.aa_json = AaOf(device);
    report.load = static_cast<int>(std::min(RateOf(device, "load"), 1e6));
    reports.push_back(std::move(report));
  }
  return reports;
}

Json DeviceReportJson(const DeviceReportRow& row) {
  Json ceilings;
  if (row.bytes_per_s > 0 || row.flops_per_s > 0) {
    ceilings = {{"bytes_per_s", row.bytes_per_s},
                {"cached_bytes_per_s", row.cached_bytes_per_s},
                {"flops_per_s", row.flops_per_s},
                {"flops8_per_s", row.flops8_per_s}};
  }
  return {{"id", row.device_id},
          {"model", row.model},
          {"target", row.target},
          {"driver", row.driver},
          {"uuid", row.uuid},
          {"partition", row.partition},
          {"host", row.host},
          {"health", row.health},
          {"reported_ns", row.reported_ns},
          {"ceilings", std::move(ceilings)},
          {"aa", row.aa_json.empty() ? Json() : Json::parse(row.aa_json, nullptr, false)}};
}

}  // namespace fettle
