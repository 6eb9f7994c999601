// SPDX-License-Identifier: Apache-2.0
#include "cli/feedback_text.h"

#include <fmt/format.h>

#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

std::string Micros(const json& entry, const char* key) {
  const double us = NumberOf(entry, key);
  return us > 0 ? FormatDuration(us * 1000) : "-";
}

std::string SpeedTable(const json& cases, int width) {
  if (!cases.is_array() || cases.empty()) return "";
  Table table({{"CASE"},
               {"DENOMINATOR", true},
               {"CANDIDATE", true},
               {"SPEED-UP"},
               {"FLOOR", true},
               {"ROOF", true}});
  for (const json& entry : cases) {
    table.Row({Printable(TextOf(entry, "case")), Micros(entry, "denominator_us"),
               Micros(entry, "candidate_us"),
               FormatInterval(NumberOf(entry, "ratio"), NumberOf(entry, "ratio_low"),
                              NumberOf(entry, "ratio_high")),
               Micros(entry, "floor_us"), FormatPercent(NumberOf(entry, "roofline_fraction"))});
  }
  return table.Render(width);
}

std::string FailedCases(const json& correctness) {
  std::string text;
  const json& cases = MemberOf(correctness, "failed_cases");
  if (!cases.is_array()) return text;
  for (const json& entry : cases) {
    text += fmt::format("wrong in {} {}\n", TextOf(entry, "case"), TextOf(entry, "sizes"));
    const json& outputs = MemberOf(entry, "outputs");
    if (!outputs.is_array()) continue;
    for (const json& output : outputs) {
      text += fmt::format("  {}: error {:.4g} times the tolerance, {:.0f} of {:.0f} elements",
                          TextOf(output, "output"), NumberOf(output, "error_over_tolerance"),
                          NumberOf(output, "mismatches"), NumberOf(output, "compared"));
      if (MemberOf(output, "first_index").is_number()) {
        text += fmt::format("; first at {:.0f}: expected {:.9g}, got {:.9g}",
                            NumberOf(output, "first_index"), NumberOf(output, "expected"),
                            NumberOf(output, "actual"));
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace

std::string FeedbackText(const json& feedback, int width) {
  std::string text;
  const json& compile = MemberOf(feedback, "compile");
  text += DiagnosticsText(MemberOf(compile, "diagnostics"));
  if (MemberOf(compile, "diagnostics").is_null()) text += Printable(TextOf(compile, "log"));
  const json& kernels = MemberOf(compile, "kernels");
  if (kernels.is_array() && !kernels.empty()) {
    text += FactsText({{"format", "facts"}, {"arch", "this target"}, {"kernels", kernels}}, width);
  }
  text += Folded(Printable(FailedCases(MemberOf(feedback, "correctness"))), width);
  text += SpeedTable(MemberOf(feedback, "speed"), width);
  text += SpeedTable(MemberOf(feedback, "speed_of_screening"), width);
  const json& confirmation = MemberOf(feedback, "confirmation");
  if (confirmation.is_object()) {
    text += Folded(Printable(FailedCases(MemberOf(confirmation, "correctness"))), width);
    if (const std::string table = SpeedTable(MemberOf(confirmation, "speed"), width);
        !table.empty()) {
      text += "confirmation, in a fresh process:\n" + table;
    }
    if (const std::string table = SpeedTable(MemberOf(confirmation, "beside_incumbent"), width);
        !table.empty()) {
      text += "confirmation, beside the incumbent:\n" + table;
    }
  }
  if (const json& diagnosis = MemberOf(feedback, "diagnosis"); diagnosis.is_object()) {
    const json& lines = MemberOf(diagnosis, "lines");
    for (const json& line : lines.is_array() ? lines : json::array()) {
      if (line.is_string()) text += Folded(Printable(line.get<std::string>()), width) + "\n";
    }
  }
  if (const json& verdict = MemberOf(feedback, "verdict"); verdict.is_object()) {
    const std::string where = TextOf(verdict, "case");
    const std::string line =
        Printable(fmt::format("{} at {} ({}){}: {}\n", TextOf(verdict, "verdict"),
                              TextOf(verdict, "stage"), TextOf(verdict, "reason"),
                              where.empty() ? "" : ", case " + where, TextOf(verdict, "message")));
    text += Folded(line, width);
  }
  return text;
}

std::string BarText(const json& bar) {
  if (!bar.is_object()) return "";
  std::string text = "to beat: ";
  text += FormatRatio(NumberOf(MemberOf(bar, "to_beat"), "ratio"));
  text += " over the " + TextOf(MemberOf(bar, "denominator"), "kind", "baseline");
  const json& incumbent = MemberOf(bar, "incumbent");
  if (incumbent.is_object()) {
    text +=
        fmt::format("; incumbent {} {}", ShortId(TextOf(incumbent, "candidate")),
                    FormatInterval(NumberOf(incumbent, "ratio"), NumberOf(incumbent, "ratio_low"),
                                   NumberOf(incumbent, "ratio_high")));
  }
  if (const json& roofline = MemberOf(bar, "roofline"); roofline.is_object()) {
    text += fmt::format("; {} of the roofline, at most {} left",
                        FormatPercent(NumberOf(roofline, "incumbent_fraction")),
                        FormatRatio(NumberOf(roofline, "headroom")));
  }
  const json& candidates = MemberOf(MemberOf(bar, "budget"), "candidates");
  text += fmt::format("; candidates {:.0f}", NumberOf(candidates, "spent"));
  if (MemberOf(candidates, "limit").is_number()) {
    text += fmt::format(" of {:.0f}", NumberOf(candidates, "limit"));
  }
  if (const std::string waiting = TextOf(bar, "waiting"); !waiting.empty()) {
    text += "; the job " + waiting;
  }
  return Printable(text) + "\n";
}

}  // namespace fettle
