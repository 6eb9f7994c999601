// SPDX-License-Identifier: Apache-2.0
#include "agent/feedback.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

// How much of each part is shown; halved until the document fits.
struct Limits {
  std::size_t diagnostics = 24;
  std::size_t text = 600;
  std::size_t log = 4'000;
  std::size_t cases = 24;
  std::size_t kernels = 8;
  std::size_t evidence = 3'000;
  void Halve() {
    for (std::size_t* limit : {&diagnostics, &text, &log, &cases, &kernels, &evidence}) {
      *limit = std::max<std::size_t>(1, *limit / 2);
    }
  }
};

double Rounded(double value, double step) { return std::round(value / step) * step; }
double Micros(double ns) { return Rounded(ns / 1000, ns < 100'000 ? 0.001 : 0.1); }

json Diagnostics(const json& list, const Limits& limits) {
  json shown = json::array();
  if (!list.is_array()) return shown;
  // Errors first: warnings of a long header must not hide them.
  for (const bool errors : {true, false}) {
    for (const json& one : list) {
      if (shown.size() >= limits.diagnostics) return shown;
      if (!one.is_object() || (one.value("severity", json()) == json("error")) != errors) continue;
      json entry = one;
      if (const auto text = one.find("text"); text != one.end() && text->is_string()) {
        entry["text"] = CutText(text->get_ref<const std::string&>(), limits.text);
      }
      shown.push_back(std::move(entry));
    }
  }
  return shown;
}

// A log's end says why it failed.
std::string Tail(const std::string& text, std::size_t most) {
  if (text.size() <= most) return ValidUtf8(text);
  return "... " + ValidUtf8(std::string_view(text).substr(text.size() - most));
}

json Compile(const UnitResult& result, const Limits& limits) {
  json out = json::object();
  json diagnostics = json::array();
  json kernels = json::array();
  for (const BuildRecord& build : result.builds) {
    for (json& one : Diagnostics(build.diagnostics, limits)) {
      if (diagnostics.size() < limits.diagnostics &&
          std::find(diagnostics.begin(), diagnostics.end(), one) == diagnostics.end()) {
        diagnostics.push_back(std::move(one));
      }
    }
    if (build.code_object.empty() && !build.log.empty() && !out.contains("log")) {
      out["log"] = Tail(build.log, limits.log);
    }
    if (!build.facts.is_object()) continue;
    const auto listed = build.facts.find("kernels");
    if (listed == build.facts.end() || !listed->is_array()) continue;
    for (const json& kernel : *listed) {
      if (kernels.size() < limits.kernels) kernels.push_back(kernel);
    }
  }
  if (result.verdict.has_value() && result.verdict->stage == Stage::kCompile &&
      result.verdict->evidence.is_object()) {
    const json& evidence = result.verdict->evidence;
    if (diagnostics.empty() && evidence.contains("diagnostics")) {
      diagnostics = Diagnostics(evidence["diagnostics"], limits);
    }
    if (!out.contains("log") && evidence.contains("log") && evidence["log"].is_string()) {
      out["log"] = Tail(evidence["log"].get_ref<const std::string&>(), limits.log);
    }
  }
  if (!diagnostics.empty()) out["diagnostics"] = std::move(diagnostics);
  if (!kernels.empty()) out["kernels"] = std::move(kernels);
  return out;
}

json Correctness(const VerificationReport& report, const Limits& limits) {
  json cases = json::array();
  std::size_t passed = 0;
  double worst = 0;
  for (const CaseReport& one : report.cases) {
    if (one.passed) {
      ++passed;
      for (const OutputErrors& output : one.outputs) worst = std::max(worst, output.worst);
      continue;
    }
    if (cases.size() >= limits.cases) continue;
    json outputs = json::array();
    for (const OutputErrors& output : one.outputs) {
      json entry = {{"output", output.output},
                    {"error_over_tolerance", output.worst},
                    {"mismatches", output.mismatches},
                    {"compared", output.compared}};
      if (output.first_index >= 0) {
        entry["first_index"] = output.first_index;
        entry["expected"] = output.expected;
        entry["actual"] = output.actual;
      }
      outputs.push_back(std::move(entry));
    }
    cases.push_back({{"case", one.case_label},
                     {"sizes", CutText(one.describe, limits.text)},
                     {"unsupported", one.unsupported},
                     {"outputs", std::move(outputs)}});
  }
  json out = {{"passed", report.passed},
              {"cases_passed", passed},
              {"worst_error_over_tolerance", worst},
              {"bug_check", report.check_mode}};
  if (!cases.empty()) out["failed_cases"] = std::move(cases);
  if (!report.warnings.empty()) {
    json warnings = json::array();
    for (const std::string& warning : report.warnings) {
      if (warnings.size() < limits.cases) warnings.push_back(CutText(warning, limits.text));
    }
    out["warnings"] = std::move(warnings);
  }
  return out;
}

json Speed(const Measurement& measurement, const Limits& limits) {
  json cases = json::array();
  for (const CaseMeasurement& one : measurement.cases) {
    if (cases.size() >= limits.cases) break;
    json entry = {{"case", one.case_label},
                  {"weight", one.weight},
                  {"denominator_us", Micros(one.a_median_ns)},
                  {"candidate_us", Micros(one.b_median_ns)},
                  {"ratio", Rounded(one.ratio, 1e-4)},
                  {"ratio_low", Rounded(one.ratio_low, 1e-4)},
                  {"ratio_high", Rounded(one.ratio_high, 1e-4)}};
    if (one.floor_ns > 0) {
      entry["floor_us"] = Micros(one.floor_ns);
      entry["roofline_fraction"] = Rounded(one.roofline_fraction, 1e-3);
    }
    if (one.bytes_per_s > 0) entry["gb_per_s"] = Rounded(one.bytes_per_s / 1e9, 0.1);
    if (one.flops_per_s > 0) entry["gflop_per_s"] = Rounded(one.flops_per_s / 1e9, 0.1);
    if (one.discarded_blocks > 0) entry["discarded_blocks"] = one.discarded_blocks;
    cases.push_back(std::move(entry));
  }
  return cases;
}

json VerdictJson(const VerdictRecord& verdict, const Limits& limits) {
  json out = {{"verdict", VerdictName(verdict.verdict)},
              {"stage", StageName(verdict.stage)},
              {"reason", verdict.reason_code},
              {"message", CutText(verdict.message, 4 * limits.text)}};
  if (!verdict.case_label.empty()) out["case"] = verdict.case_label;
  json evidence = verdict.evidence.is_object() ? verdict.evidence : json::object();
  evidence.erase("diagnostics");  // Shown under "compile".
  evidence.erase("log");
  if (evidence.empty()) return out;
  const std::string text = evidence.dump(-1, ' ', false, kReplaceInvalid);
  if (text.size() <= limits.evidence) {
    out["evidence"] = std::move(evidence);
  } else {
    out["evidence_text"] = CutText(text, limits.evidence);
  }
  return out;
}

// The facts of each kernel as "name": "value unit".
json Counters(const json& counters, const Limits& limits) {
  json out = json::object();
  const json absent = counters.value("absent", json());
  if (absent.is_string()) {
    out["absent"] = CutText(absent.get_ref<const std::string&>(), limits.text);
  }
  const auto kernels = counters.find("kernels");
  if (kernels == counters.end() || !kernels->is_array()) return out;
  for (const json& kernel : *kernels) {
    if (out["kernels"].size() >= limits.cases || !kernel.is_object()) break;
    json facts = json::object();
    const json counted = kernel.value("facts", json::object());
    for (const auto& [name, fact] : counted.items()) {
      if (!fact.is_object() || !fact.contains("value") || !fact["value"].is_number()) continue;
      const json unit = fact.value("unit", json());
      facts[CutText(name, limits.text)] =
          fmt::format("{:.4g} {}", fact["value"].get<double>(),
                      unit.is_string() ? CutText(unit.get<std::string>(), 20) : "");
    }
    const json symbol = kernel.value("kernel", json());
    out["kernels"].push_back(
        {{"kernel", CutText(symbol.is_string() ? symbol.get<std::string>() : "", limits.text)},
         {"facts", std::move(facts)}});
  }
  return out;
}

json Build(const FeedbackInput& input, const Limits& limits) {
  json out = json::object();
  if (input.verdict != nullptr) out["verdict"] = VerdictJson(*input.verdict, limits);
  if (input.ratio > 0) out["ratio"] = Rounded(input.ratio, 1e-4);
  if (input.evaluation != nullptr) {
    const UnitResult& result = *input.evaluation;
    if (json compile = Compile(result, limits); !compile.empty()) {
      out["compile"] = std::move(compile);
    }
    if (result.verification.has_value()) {
      out["correctness"] = Correctness(*result.verification, limits);
    }
    if (result.measurement.has_value()) {
      out["speed"] = Speed(*result.measurement, limits);
    } else if (result.screening.has_value()) {
      out["speed_of_screening"] = Speed(*result.screening, limits);
    }
    if (result.counters.is_object()) out["counters"] = Counters(result.counters, limits);
  }
  if (input.confirmation != nullptr) {
    json confirmation = json::object();
    if (input.confirmation->measurement.has_value()) {
      confirmation["speed"] = Speed(*input.confirmation->measurement, limits);
    }
    if (input.confirmation->against_incumbent.has_value()) {
      confirmation["beside_incumbent"] = Speed(*input.confirmation->against_incumbent, limits);
    }
    if (input.confirmation->verification.has_value()) {
      confirmation["correctness"] = Correctness(*input.confirmation->verification, limits);
    }
    out["confirmation"] = std::move(confirmation);
  }
  return out;
}

}  // namespace

json MakeFeedback(const FeedbackInput& input, std::size_t max_bytes) {
  Limits limits;
  json out = Build(input, limits);
  for (int round = 0; round < 8; ++round) {
    if (out.dump(-1, ' ', false, kReplaceInvalid).size() <= max_bytes) return out;
    limits.Halve();
    out = Build(input, limits);
    out["cut"] = true;
  }
  if (out.dump(-1, ' ', false, kReplaceInvalid).size() <= max_bytes) return out;
  json least = {{"cut", true}};
  if (out.contains("verdict")) {
    least["verdict"] = {{"verdict", out["verdict"]["verdict"]},
                        {"stage", out["verdict"]["stage"]},
                        {"reason", CutText(out["verdict"]["reason"].get<std::string>(), 200)}};
  }
  if (out.contains("ratio")) least["ratio"] = out["ratio"];
  return least;
}

std::string NextAction(const VerdictRecord& verdict) {
  switch (verdict.verdict) {
    case Verdict::kWin:
      return "it is the incumbent now: propose the next change on parent \"incumbent\"";
    case Verdict::kNoWin:
      if (verdict.reason_code == "not_better_than_incumbent") {
        return "it beats the denominator but not the incumbent: propose another change on parent "
               "\"incumbent\"";
      }
      return "right but not fast enough: compare its speed per case with the incumbent's, then "
             "propose a different change";
    case Verdict::kAmbiguous:
      return "too close to call: look for a larger gain in the same direction";
    case Verdict::kIncorrect:
      return "wrong result: read the failed cases, repair it as a patch on this candidate";
    case Verdict::kCompileError:
      return "it does not compile: read the diagnostics, repair it as a patch on this candidate";
    case Verdict::kLaunchError:
      return "the launch was refused: check block size, shared memory and registers against the "
             "hardware section of the brief";
    case Verdict::kTimeout:
      return "it ran too long: look for an endless loop or far too little parallelism";
    case Verdict::kCrashed:
      return "it crashed the device's process: look for accesses out of bounds, or run it with "
             "mode \"bugs\"";
    case Verdict::kUnmeasurable:
      return "its time could not be trusted: propose it no second time unless something changed";
    case Verdict::kRefused:
      return "refused by policy: read the rules section of the brief";
    case Verdict::kUnsupportedShape:
      return "its `requires` excludes every timed case: widen it";
  }
  return "";
}

absl::StatusOr<TextPage> PageOf(std::string_view text, std::string_view cursor,
                                std::size_t max_bytes) {
  std::size_t begin = 0;
  if (!cursor.empty()) {
    const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), begin);
    if (error != std::errc() || end != cursor.data() + cursor.size() || begin > text.size()) {
      return absl::InvalidArgumentError(
          "cursor: not one of an earlier reply; leave it empty to begin anew");
    }
  }
  std::string_view rest = text.substr(begin);
  if (rest.size() > max_bytes) {
    rest = rest.substr(0, max_bytes);
    const std::size_t line = rest.rfind('\n');
    if (line != std::string_view::npos && line > max_bytes / 2) {
      rest = rest.substr(0, line + 1);
    } else {
      // Back to the start of a character.
      std::size_t end = rest.size();
      while (end > 0 && (static_cast<unsigned char>(text[begin + end]) & 0xC0) == 0x80) --end;
      if (end > 0) rest = rest.substr(0, end);
    }
  }
  TextPage page;
  page.text = ValidUtf8(rest);
  if (begin + rest.size() < text.size()) page.next_cursor = std::to_string(begin + rest.size());
  return page;
}

}  // namespace fettle
