// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "store/device_store.h"

namespace fettle {

// How a worker's device is now, from a heartbeat.
struct DeviceReport {
  DeviceReportRow row;  // Without host, worker and time.
  int load = 0;         // Units that hold the device or wait for it.
};

// The devices of a heartbeat's state_json; none where it holds none, as from older workers.
// kInvalidArgument names the field. Names are cut, rates that are no rates are 0.
absl::StatusOr<std::vector<DeviceReport>> ParseDeviceReports(const std::string& state_json);

// {id, model, target, driver, uuid, partition, host, health, reported_ns, ceilings, aa}: the last
// two null where they were not measured.
nlohmann::json DeviceReportJson(const DeviceReportRow& row);

}  // namespace fettle
