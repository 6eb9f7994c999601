// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/json_text.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

// Shares of a peak from which on a resource counts as the limit, and below which it surely is not.
constexpr double kNearLimit = 0.85;
constexpr double kBusyMemory = 0.60;
constexpr double kBusyCompute = 0.50;
constexpr double kIdle = 0.30;
constexpr double kLaunchNs = 8'000;  // A GPU kernel below this is mostly launch and tail.
constexpr double kLowOccupancy = 0.30;
constexpr char kGeneral[] = "general";
constexpr std::size_t kMaxShownLines = 16;
constexpr std::size_t kMaxShownLine = 240;

struct Peaks {
  double bytes_per_s = 0, flops_per_s = 0;
};

Peaks PeaksOf(const HardwareCard* card, std::string_view model) {
  Peaks peaks;
  const HardwareCard::Device* device = card == nullptr ? nullptr : card->DeviceOf(model);
  if (device == nullptr) return peaks;
  peaks.bytes_per_s = 1e12 * NumberAt(device->figures, "effective_copy_tb_per_s");
  if (peaks.bytes_per_s == 0)
    peaks.bytes_per_s = 1e12 * NumberAt(device->figures, "memory_tb_per_s");
  const json tflops = device->figures.value("tflops", json::object());
  peaks.flops_per_s = 1e12 * NumberAt(tflops, "fp32_vector");
  return peaks;
}

// The limit of one case: what its figures say, weakest claim last.
std::string LimitOf(const CaseMeasurement& one, const Peaks& peaks, bool gpu) {
  if (one.roofline_fraction >= kNearLimit) return "near_limit";
  const double memory = peaks.bytes_per_s > 0 ? one.bytes_per_s / peaks.bytes_per_s : 0;
  const double compute = peaks.flops_per_s > 0 ? one.flops_per_s / peaks.flops_per_s : 0;
  if (memory >= kBusyMemory && memory >= compute) return "memory";
  if (compute >= kBusyCompute) return "compute";
  if (gpu && one.b_median_ns < kLaunchNs) return "launch";
  if (one.roofline_fraction > 0 || memory > 0) return "latency";
  return "unknown";
}

struct KernelFacts {
  double spills = 0, local_bytes = 0, occupancy = 1, registers = 0;
  std::string limit;
  bool known = false;
};

KernelFacts FactsOf(const UnitResult& result) {
  KernelFacts facts;
  for (const BuildRecord& build : result.builds) {
    if (!build.facts.is_object()) continue;
    const auto kernels = build.facts.find("kernels");
    if (kernels == build.facts.end() || !kernels->is_array()) continue;
    for (const json& kernel : *kernels) {
      facts.known = true;
      facts.spills = std::max(facts.spills, NumberAt(kernel, "vgpr_spills"));
      facts.local_bytes = std::max(facts.local_bytes, NumberAt(kernel, "local_bytes"));
      facts.registers = std::max(facts.registers, NumberAt(kernel, "registers"));
      const json occupancy = kernel.value("occupancy", json::object());
      const double most = NumberAt(occupancy, "max_waves");
      if (most <= 0) continue;
      const double share = NumberAt(occupancy, "waves") / most;
      if (share >= facts.occupancy) continue;
      facts.occupancy = share;
      const auto limit = occupancy.find("limit");
      facts.limit = limit != occupancy.end() && limit->is_string() ? limit->get<std::string>() : "";
    }
  }
  return facts;
}

void ReadFacts(const KernelFacts& facts, Diagnosis& out) {
  if (!facts.known) return;
  if (facts.spills > 0 || facts.local_bytes > 0) {
    out.lines.push_back(
        fmt::format("registers spill: {:.0f} spilled, {:.0f} bytes of local memory a thread at "
                    "{:.0f} registers",
                    facts.spills, facts.local_bytes, facts.registers));
    AddTopics(out, {"registers"});
    if (out.bottleneck == "latency" || out.bottleneck == "unknown") out.bottleneck = "registers";
    if (out.bottleneck == "near_limit") {
      out.evidence_agrees = false;
      out.lines.push_back(
          "the evidence disagrees: it spills, yet it is near the roofline; the work "
          "formula may count too little");
    }
  }
  if (facts.occupancy < kLowOccupancy) {
    out.lines.push_back(fmt::format("occupancy is {:.0f} %, limited by {}", 100 * facts.occupancy,
                                    facts.limit.empty() ? "nothing known" : facts.limit));
    AddTopics(out, {"occupancy",
                    facts.limit.find("shared") != std::string::npos ? "shared" : "registers"});
    if (out.bottleneck == "latency") out.bottleneck = "occupancy";
  }
}

}  // namespace

void AddTopics(Diagnosis& diagnosis, std::initializer_list<const char*> topics) {
  std::vector<std::string>& all = diagnosis.topics;
  for (const char* topic : topics) {
    if (std::find(all.begin(), all.end(), topic) != all.end()) continue;
    const bool before = !all.empty() && all.back() == kGeneral;
    if (before) all.pop_back();
    all.emplace_back(topic);
    if (before) all.emplace_back(kGeneral);
  }
}

Diagnosis Diagnose(const UnitResult& result, const HardwareCard* card,
                   std::string_view device_model) {
  Diagnosis out;
  const Measurement* measurement = result.measurement.has_value() ? &*result.measurement
                                   : result.screening.has_value() ? &*result.screening
                                                                  : nullptr;
  const KernelFacts facts = FactsOf(result);
  if (measurement == nullptr) {
    out.lines.emplace_back("nothing was measured");
    ReadFacts(facts, out);
    AddTopics(out, {kGeneral});
    return out;
  }
  const Peaks peaks = PeaksOf(card, device_model);
  const bool gpu = card != nullptr && card->vendor != "cpu";
  std::map<std::string, double> weights;
  if (!measurement->cases.empty()) {
    const CaseMeasurement& first = measurement->cases.front();
    out.declared_bytes = first.bytes_per_s * first.b_median_ns * 1e-9;
  }
  for (const CaseMeasurement& one : measurement->cases) {
    const std::string limit = LimitOf(one, peaks, gpu);
    weights[limit] += one.weight;
    std::string line = fmt::format("{}: {:.2f} us", one.case_label, one.b_median_ns / 1000);
    if (one.floor_ns > 0) {
      line += fmt::format(", floor {:.2f} us ({:.0f} % of the roofline)", one.floor_ns / 1000,
                          100 * one.roofline_fraction);
    }
    if (one.bytes_per_s > 0) {
      line += fmt::format(", {:.1f} GB/s", one.bytes_per_s / 1e9);
      if (peaks.bytes_per_s > 0) {
        line += fmt::format(" ({:.0f} % of what a copy reaches)",
                            100 * one.bytes_per_s / peaks.bytes_per_s);
      }
    }
    if (one.flops_per_s > 0) line += fmt::format(", {:.1f} GFLOP/s", one.flops_per_s / 1e9);
    out.lines.push_back(line + ": " + limit);
  }
  const auto heaviest =
      std::max_element(weights.begin(), weights.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (heaviest != weights.end()) out.bottleneck = heaviest->first;
  if (weights.size() > 1) {
    out.evidence_agrees = false;
    out.lines.emplace_back(
        "the cases disagree on what limits them: a specialist with `requires` for "
        "the slow ones may be better than one kernel for all");
  }
  if (out.bottleneck == "memory") AddTopics(out, {"memory", "cache"});
  if (out.bottleneck == "compute") AddTopics(out, {"compute"});
  if (out.bottleneck == "launch") AddTopics(out, {"launch", "latency"});
  if (out.bottleneck == "latency") AddTopics(out, {"latency", "memory", "occupancy"});
  ReadFacts(facts, out);
  for (const CaseMeasurement& one : measurement->cases) {
    const double memory = peaks.bytes_per_s > 0 ? one.bytes_per_s / peaks.bytes_per_s : 0;
    if (one.roofline_fraction >= kNearLimit && peaks.bytes_per_s > 0 && memory < kIdle &&
        one.flops_per_s < kIdle * peaks.flops_per_s) {
      out.evidence_agrees = false;
      out.lines.push_back(fmt::format(
          "the evidence disagrees in {}: near the floor, yet memory and arithmetic are idle",
          one.case_label));
    }
  }
  AddTopics(out, {kGeneral});
  return out;
}

json ToJson(const Diagnosis& diagnosis) {
  json lines = json::array();
  for (const std::string& line : diagnosis.lines) {
    if (lines.size() < kMaxShownLines) lines.push_back(CutText(line, kMaxShownLine));
  }
  return {{"bottleneck", diagnosis.bottleneck},
          {"evidence_agrees", diagnosis.evidence_agrees},
          {"lines", std::move(lines)}};
}

}  // namespace fettle
