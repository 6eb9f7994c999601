// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "device/device.h"

namespace fettle {

// Where `fettle doctor --aa` keeps its figures of a device, and those; null where nothing is.
std::filesystem::path AaFile(const std::filesystem::path& folder, const DeviceInfo& device);
nlohmann::json KeptAa(const std::filesystem::path& file);

// What is known of a worker's devices beside what they are: files of the cache folder, read again
// only when they have changed, so that it costs next to nothing while something is timed.
// Thread-safe.
class DeviceReports {
 public:
  explicit DeviceReports(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // {"ceilings": {bytes_per_s, ...}, "aa": {candidates, confirmations, false_wins, ratio_low,
  // ratio_high, spread_median, spread_p95, measured_ns}}, each where it was measured.
  nlohmann::json Of(const DeviceInfo& device);

 private:
  struct Known {
    std::filesystem::file_time_type ceilings_time{}, aa_time{};
    nlohmann::json report = nlohmann::json::object();
  };
  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // By device id. Guarded by mutex_.
};

}  // namespace fettle
