// SPDX-License-Identifier: Apache-2.0
#pragma once

// Evidence as text for a person, shared by show, try, verify and demo.

#include <string>

#include <nlohmann/json.hpp>

namespace fettle {

// Medians of both sides, ratio with interval, bytes/s, flop/s and roofline fraction per timed case;
// `measurement` in the form of core/evidence.h. Ends with a line end; empty for none.
// `environment`: of the same result; its "hot" medians become a line for each case.
std::string MeasurementTable(const nlohmann::json& measurement, int width,
                             const nlohmann::json& environment = nullptr);

// Worst error over its tolerance per case and output, and the cases that are unsupported.
std::string VerificationTable(const nlohmann::json& verification, int width);

// A UnitResult's "duty" as text: a row for each ratio, and what the device does not tell. Empty
// where it was not asked for.
std::string DutyText(const nlohmann::json& duty, int width);

// What check mode and compute-sanitizer's tools said, a line each; empty where neither was asked.
std::string BugCheckLines(const nlohmann::json& verification);

// The known-bad outputs that a task's checker was tried with, and whether it rejected them; from
// UnitResult's `registration`. Empty for none.
// A UnitResult's "counters" as text: a table of facts for each kernel, or why there are none. Empty
// where none were asked for.
std::string CountersText(const nlohmann::json& counters, int width);

std::string MutationTable(const nlohmann::json& registration, int width);

// "INCORRECT at verify (tolerance), case checked/3: message" and the first mismatch when there is
// one; `record` in the form of core/verdict.h.
std::string VerdictText(const nlohmann::json& record);

// One line per diagnostic: "kernel.cu:12:3: error: text".
std::string DiagnosticsText(const nlohmann::json& diagnostics);

}  // namespace fettle
