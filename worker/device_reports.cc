// SPDX-License-Identifier: Apache-2.0
#include "worker/device_reports.h"

#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "core/digest.h"
#include "profiler/ceilings.h"

namespace fettle {
namespace {

using nlohmann::json;
using FileTime = std::filesystem::file_time_type;

// When a file was last written; the epoch of files where there is none.
FileTime TimeOf(const std::filesystem::path& file) {
  std::error_code error;
  const FileTime time = std::filesystem::last_write_time(file, error);
  return error ? FileTime{} : time;
}

std::int64_t SinceEpochNs(FileTime time) {
  const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system).count();
}

// The figures without the single ratios and spreads that they were made from.
json AaFigures(const json& kept, FileTime time) {
  json figures = json::object();
  for (const char* key : {"candidates", "confirmations", "false_wins", "ratio_low", "ratio_high",
                          "spread_median", "spread_p95"}) {
    const auto found = kept.find(key);
    if (found == kept.end() || !found->is_number()) return json();
    figures[key] = *found;
  }
  figures["measured_ns"] = SinceEpochNs(time);
  return figures;
}

}  // namespace

std::filesystem::path AaFile(const std::filesystem::path& folder, const DeviceInfo& device) {
  const std::string key = device.model + "\n" + device.uuid + "\n" + device.driver;
  return folder / "aa" / fmt::format("{}.json", Sha256Hex(key).substr(0, 16));
}

json KeptAa(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  json kept = json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  return kept.is_object() ? kept : json();
}

json DeviceReports::Of(const DeviceInfo& device) {
  const std::filesystem::path ceilings_file = CeilingsFile(folder_, device);
  const std::filesystem::path aa_file = AaFile(folder_, device);
  const FileTime ceilings_time = TimeOf(ceilings_file);
  const FileTime aa_time = TimeOf(aa_file);
  const std::lock_guard lock(mutex_);
  Known& known = known_[device.id];
  if (ceilings_time != known.ceilings_time) {
    known.ceilings_time = ceilings_time;
    known.report.erase("ceilings");
    if (const std::optional<Ceilings> ceilings = KeptCeilings(ceilings_file)) {
      known.report["ceilings"] = ToJson(*ceilings);
    }
  }
  if (aa_time != known.aa_time) {
    known.aa_time = aa_time;
    known.report.erase("aa");
    const json kept = KeptAa(aa_file);
    if (kept.is_object()) {
      json figures = AaFigures(kept, aa_time);
      if (figures.is_object()) known.report["aa"] = std::move(figures);
    }
  }
  return known.report;
}

}  // namespace fettle
