// SPDX-License-Identifier: Apache-2.0
#pragma once

// What workers last reported of their devices. Kept when they go, so that a page about old
// measurements still knows the ceilings of the device they were made on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"

namespace fettle {

// One device of one host; rates are 0 where they were not measured.
struct DeviceReportRow {
  std::string host, device_id;
  std::string model, target, driver, uuid, partition;
  std::string worker_id;
  std::string health;  // ok, suspect, quarantined
  double bytes_per_s = 0, cached_bytes_per_s = 0, flops_per_s = 0, flops8_per_s = 0;
  std::string aa_json;  // Figures of `fettle doctor --aa`; empty: never run there.
  std::int64_t reported_ns = 0;

  friend bool operator==(const DeviceReportRow&, const DeviceReportRow&) = default;
};

// Replaces what was known of (host, device_id). Inside Store::Write.
absl::Status PutDeviceReport(Connection& db, const DeviceReportRow& row);
// By model, host and id; `target` empty: of all.
absl::StatusOr<std::vector<DeviceReportRow>> ListDeviceReports(Connection& db,
                                                               std::string_view target);

}  // namespace fettle
