// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small pure conversions between results, rows and what may be shown.

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/evidence.h"
#include "core/task.h"
#include "core/verdict.h"
#include "core/work_unit.h"
#include "store/records.h"

namespace fettle {

// {"BLOCK": 256} as tunable values; anything else gives no values.
TunableValues ParseValues(std::string_view json_text);

// Speed-up over the denominator over all timed cases; 0 where nothing was measured.
double CombinedRatio(const Measurement& measurement);

// Device time as a job is charged for it.
inline std::int64_t DeviceMs(std::int64_t device_ns) { return (device_ns + 500'000) / 1'000'000; }

// The device time that a worker's result names; unset where it names none.
std::optional<std::int64_t> DeviceMsOf(const std::string& result_json);

// Weighted mean of the cases' roofline fractions; 0 where none is known.
double RooflineFraction(const Measurement& measurement);

// A held-out case's verdict as proposers may see it: stage, code and class only.
VerdictRecord WithoutSecrets(VerdictRecord verdict);
// Removes seeds and held-out details from a result or provenance document, at any depth.
nlohmann::json WithoutSecrets(nlohmann::json document);

// The evaluation row with its measured columns. `result_json` is the document as it came.
EvaluationRow MakeEvaluation(const UnitRow& unit, const UnitResult& result, std::string result_json,
                             const std::string& fettle_version, std::int64_t now_ns);

}  // namespace fettle
