// SPDX-License-Identifier: Apache-2.0
#include "server/job_options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "server/errors.h"
#include "server/fleet/fleet_config.h"

namespace fettle {
namespace {

absl::Status ReadNumber(const nlohmann::json& value, const std::string& key, double low,
                        double high, double* out) {
  if (!value.is_number() || value.get<double>() < low || value.get<double>() > high) {
    return errors::BadField("options_json." + key,
                            fmt::format("must be a number from {} to {}", low, high));
  }
  *out = value.get<double>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobOptions> ParseJobOptions(const std::string& json_text) {
  JobOptions options;
  if (json_text.empty()) return options;
  const auto json = ParseJson(json_text, kMaxPartNesting);
  if (!json.is_object()) return errors::BadField("options_json", "must be a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "plateau") {
      double plateau = 0;
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 0, 1e9, &plateau));
      options.plateau = static_cast<std::int64_t>(plateau);
    } else if (key == "roofline_stop") {
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 0, 10, &options.roofline_stop));
    } else if (key == "speedup_stop") {
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 0, 1e6, &options.speedup_stop));
    } else if (key == "tune_share") {
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 0, 1, &options.tune_share));
    } else if (key == "time_cap_s") {
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 0.01, 3600, &options.time_cap_s));
    } else if (key == "fit" || key == "turns") {
      double number = 0;
      FETTLE_RETURN_IF_ERROR(ReadNumber(value, key, 1, 1000, &number));
      (key == "fit" ? options.fit : options.turns) = static_cast<std::int64_t>(number);
    } else if (key == "model" || key == "writer" || key == "recording") {
      if (!value.is_string() || value.get_ref<const std::string&>().size() > 200) {
        return errors::BadField("options_json." + key, "must be a short text");
      }
      (key == "model"    ? options.model
       : key == "writer" ? options.writer
                         : options.recording) = value.get<std::string>();
    } else if (key == "account" || key == "partition" || key == "qos") {
      if (!value.is_string() || !IsFleetName(value.get_ref<const std::string&>())) {
        return errors::BadField("options_json." + key, "must be a name as Slurm has them");
      }
      (key == "account"     ? options.account
       : key == "partition" ? options.partition
                            : options.qos) = value.get<std::string>();
    } else {
      return errors::BadField(
          "options_json." + key,
          "no such option; there are plateau, roofline_stop, speedup_stop, tune_share, "
          "time_cap_s, model, writer, recording, fit, turns, account, "
          "partition and qos");
    }
  }
  return options;
}

}  // namespace fettle
