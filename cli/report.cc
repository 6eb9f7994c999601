// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/terminal.h"
#include "core/text.h"

namespace fettle {

using nlohmann::json;

std::string MeasurementTable(const json& measurement, int width, const json& environment) {
  Table table({{"CASE"},
               {"BASELINE", true},
               {"CANDIDATE", true},
               {"SPEED-UP"},
               {"BYTES/S", true},
               {"FLOP/S", true},
               {"ROOF", true}});
  const json& cases = MemberOf(measurement, "cases");
  if (!cases.is_array() || cases.empty()) return "";
  for (const json& entry : cases) {
    table.Row({Printable(TextOf(entry, "case")), FormatDuration(NumberOf(entry, "a_median_ns")),
               FormatDuration(NumberOf(entry, "b_median_ns")),
               FormatInterval(NumberOf(entry, "ratio"), NumberOf(entry, "ratio_low"),
                              NumberOf(entry, "ratio_high")),
               FormatRate(NumberOf(entry, "bytes_per_s"), "B/s"),
               FormatRate(NumberOf(entry, "flops_per_s"), "/s"),
               FormatPercent(NumberOf(entry, "roofline_fraction"))});
  }
  std::string text = table.Render(width);
  const json& hot = MemberOf(environment, "hot");
  if (!hot.is_object()) return text;
  for (const auto& [label, medians] : hot.items()) {
    const std::string line = Printable(
        fmt::format("{} with its data in the cache: {} to {}, {:.3f}x (decides nothing)\n", label,
                    FormatDuration(NumberOf(medians, "baseline_ns")),
                    FormatDuration(NumberOf(medians, "candidate_ns")), NumberOf(medians, "ratio")));
    text += Folded(line, width);
  }
  return text;
}

std::string CountersText(const json& counters, int width) {
  if (!counters.is_object()) return "";
  if (const std::string why = TextOf(counters, "absent"); !why.empty()) {
    return Folded(Printable(fmt::format("no counters: {}\n", why)), width);
  }
  std::string text;
  for (const json& kernel : MemberOf(counters, "kernels")) {
    const std::string title =
        Printable(fmt::format("{} ({} launches, by {})\n", TextOf(kernel, "kernel"),
                              NumberOf(kernel, "launches"), TextOf(counters, "tool")));
    text += Folded(title, width);
    Table table({{"COUNTER"}, {"VALUE", true}, {"UNIT"}});
    for (const auto& [name, fact] : MemberOf(kernel, "facts").items()) {
      table.Row({Printable(name), fmt::format("{:.6g}", NumberOf(fact, "value")),
                 Printable(TextOf(fact, "unit"))});
    }
    text += table.Render(width);
  }
  const json& missing = MemberOf(counters, "missing");
  if (missing.is_array() && !missing.empty()) {
    std::string line = "not available here:";
    for (const json& name : missing) {
      if (name.is_string()) line += " " + Printable(name.get<std::string>());
    }
    text += Folded(line + "\n", width);
  }
  return text;
}

std::string DutyText(const json& duty, int width) {
  const json& points = MemberOf(duty, "points");
  if (!points.is_array() || points.empty()) return "";
  double full_ns = 0;  // A launch under the lightest load.
  bool power = false, clock = false;
  for (const json& point : points) {
    power = power || NumberOf(point, "power_w") > 0;
    clock = clock || NumberOf(point, "clock_mhz") > 0;
    if (full_ns <= 0) full_ns = NumberOf(point, "median_ns");
  }
  const auto figure = [](const json& point, const char* name) {
    const double value = NumberOf(point, name);
    return value > 0 ? fmt::format("{:.0f}", value) : std::string("-");
  };
  Table table({{"DUTY", true},
               {"RAN", true},
               {"CALL", true},
               {"SLOWER", true},
               {"MHZ", true},
               {"LOWEST", true},
               {"WATT", true},
               {"HIGHEST", true},
               {"C", true},
               {"THROTTLED"}});
  for (const json& point : points) {
    const double ns = NumberOf(point, "median_ns");
    const std::string reason = TextOf(point, "throttle_reason");
    table.Row({fmt::format("{:.0f} %", 100 * NumberOf(point, "asked")),
               fmt::format("{:.0f} %", 100 * NumberOf(point, "ran")),
               ns > 0 ? FormatDuration(ns) : "-",
               ns > 0 ? fmt::format("{:+.1f} %", 100 * (ns / full_ns - 1)) : "-",
               figure(point, "clock_mhz"), figure(point, "lowest_clock_mhz"),
               figure(point, "power_w"), figure(point, "highest_power_w"),
               figure(point, "temperature_c"), reason.empty() ? "no" : Printable(reason)});
  }
  std::string text = fmt::format("duty ratios, {}\n", Printable(TextOf(duty, "case")));
  text += table.Render(width);
  if (!power) text += "power: not known, this device does not tell it\n";
  if (!clock) text += "clock: not known, this device does not tell it\n";
  return text;
}

std::string VerificationTable(const json& verification, int width) {
  const json& cases = MemberOf(verification, "cases");
  if (!cases.is_array() || cases.empty()) return "";
  Table table(
      {{"CASE"}, {"OUTPUT"}, {"ERROR/BOUND", true}, {"RMS ERROR", true}, {"RESULT"}, {"SIZES"}});
  for (const json& entry : cases) {
    const std::string label = Printable(TextOf(entry, "case"));
    const std::string sizes = Printable(TextOf(entry, "describe"));
    const json& passed = MemberOf(entry, "passed");
    const std::string result = MemberOf(entry, "unsupported") == json(true) ? "unsupported"
                               : passed == json(true)                       ? "passed"
                                                                            : "FAILED";
    const json& outputs = MemberOf(entry, "outputs");
    if (!outputs.is_array() || outputs.empty()) {
      table.Row({label, "-", "-", "-", result, sizes});
      continue;
    }
    for (const json& output : outputs) {
      table.Row({label, Printable(TextOf(output, "output")),
                 fmt::format("{:.3g}", NumberOf(output, "worst")),
                 fmt::format("{:.2g}", NumberOf(output, "rms")), result, sizes});
    }
  }
  return table.Render(width);
}

std::string BugCheckLines(const json& verification) {
  std::string text;
  const std::string check_mode = TextOf(verification, "check_mode");
  if (!check_mode.empty()) text += "  check mode: " + check_mode + "\n";
  const json& sanitizers = MemberOf(verification, "sanitizers");
  if (sanitizers.is_object()) {
    for (const auto& [tool, said] : sanitizers.items()) {
      text += fmt::format("  compute-sanitizer {}: {}\n", tool, TextOf(sanitizers, tool));
    }
  }
  return Printable(text);
}

std::string MutationTable(const json& registration, int width) {
  std::string text;
  const json& mutations = MemberOf(registration, "mutations");
  if (mutations.is_array() && !mutations.empty()) {
    Table table({{"KNOWN-BAD OUTPUT"}, {"CASE"}, {"OUTPUT"}, {"RESULT"}});
    for (const json& mutation : mutations) {
      table.Row({Printable(TextOf(mutation, "mutation")), Printable(TextOf(mutation, "case", "-")),
                 Printable(TextOf(mutation, "output", "-")),
                 MemberOf(mutation, "rejected") == json(true) ? "rejected" : "ACCEPTED"});
    }
    text = table.Render(width);
  }
  const json& findings = MemberOf(registration, "findings");
  if (!findings.is_array()) return text;
  for (const json& finding : findings) {
    const std::string line =
        Printable(fmt::format("{}: {} ({})\n", TextOf(finding, "severity", "note"),
                              TextOf(finding, "message"), TextOf(finding, "code")));
    text += Folded(line, width);
  }
  return text;
}

std::string VerdictText(const json& record) {
  std::string text = fmt::format("{} at {}", TextOf(record, "verdict", "no verdict"),
                                 TextOf(record, "stage", "an unknown stage"));
  if (const std::string code = TextOf(record, "reason_code"); !code.empty()) {
    text += fmt::format(" ({})", code);
  }
  if (const std::string label = TextOf(record, "case"); !label.empty()) {
    text += fmt::format(", case {}", label);
  }
  if (const std::string message = TextOf(record, "message"); !message.empty()) {
    text += ": " + message;
  }
  const json& evidence = MemberOf(record, "evidence");
  if (evidence.is_object()) {
    for (const auto& [name, value] : evidence.items()) {
      if (value.is_structured() && value.size() > 8) continue;
      const std::string shown = value.is_string() ? value.get<std::string>()
                                                  : value.dump(-1, ' ', false, kReplaceInvalid);
      if (shown.size() <= 400) text += fmt::format("\n  {}: {}", name, shown);
    }
  }
  return Printable(text);
}

std::string DiagnosticsText(const json& diagnostics) {
  std::string text;
  if (!diagnostics.is_array()) return text;
  for (const json& entry : diagnostics) {
    text += TextOf(entry, "file", "?");
    if (const auto line = static_cast<long long>(NumberOf(entry, "line")); line > 0) {
      text += fmt::format(":{}", line);
      const auto column = static_cast<long long>(NumberOf(entry, "column"));
      if (column > 0) text += fmt::format(":{}", column);
    }
    text += fmt::format(": {}: {}\n", TextOf(entry, "severity", "note"), TextOf(entry, "text"));
  }
  return Printable(text);
}

}  // namespace fettle
