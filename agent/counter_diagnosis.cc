// SPDX-License-Identifier: Apache-2.0
#include "agent/counter_diagnosis.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr double kExtraTraffic = 1.25;    // Moved over declared, from which on it is waste.
constexpr double kMissingTraffic = 0.60;  // Below this the work formula counts too much.
constexpr double kConflicts = 0.10;       // Bank conflicts for each instruction.
constexpr double kFewWarps = 35;          // Percent of the most warps.
constexpr double kBusyUnit = 60;          // Percent of its peak.
constexpr double kLongWait = 1.0;         // Warps that wait for each instruction issued.
constexpr std::size_t kAbsentReasonBytes = 160;

struct Wait {
  const char* fact;
  const char* words;
  std::array<const char*, 2> topics;
};
constexpr std::array<Wait, 7> kWaits = {{
    {"stall_long_scoreboard", "for data of the memory", {"latency", "memory"}},
    {"stall_short_scoreboard", "for shared memory or special functions", {"shared", "latency"}},
    {"stall_barrier", "at barriers", {"latency", "occupancy"}},
    {"stall_memory_queue", "because the queue of memory instructions is full", {"memory", "cache"}},
    {"stall_shared_queue", "because the queue of shared memory is full", {"shared", nullptr}},
    {"stall_arithmetic", "for arithmetic units", {"compute", nullptr}},
    {"stall_wait", "for the result of the instruction before", {"compute", "latency"}},
}};

// Facts over all kernels of the call: amounts summed, others of the kernel with the most
// instructions, which is taken for the longest.
class Facts {
 public:
  explicit Facts(const json& counters) {
    double most = -1;
    const auto kernels = counters.find("kernels");
    if (kernels == counters.end() || !kernels->is_array()) return;
    for (const json& kernel : *kernels) {
      if (!kernel.is_object()) continue;
      const json facts = kernel.value("facts", json::object());
      std::map<std::string, double> own;
      for (const auto& [name, fact] : facts.items()) {
        if (!fact.is_object() || !fact.contains("value") || !fact["value"].is_number()) continue;
        own[name] = fact["value"].get<double>();
        sums_[name] += own[name];
      }
      const auto found = own.find("instructions");
      const double instructions = found == own.end() ? 0 : found->second;
      if (instructions <= most) continue;
      most = instructions;
      longest_ = std::move(own);
    }
  }
  bool Has(const std::string& name) const { return sums_.contains(name); }
  double Sum(const std::string& name) const { return Of(sums_, name); }
  double Longest(const std::string& name) const { return Of(longest_, name); }

 private:
  static double Of(const std::map<std::string, double>& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? 0 : found->second;
  }
  std::map<std::string, double> sums_, longest_;
};

void Traffic(const Facts& facts, Diagnosis& out) {
  if (!facts.Has("dram_read_bytes") && !facts.Has("dram_write_bytes")) return;
  const double moved = facts.Sum("dram_read_bytes") + facts.Sum("dram_write_bytes");
  std::string line = fmt::format("counters: {:.3g} MB to and from memory", moved / 1e6);
  const double share = out.declared_bytes > 0 ? moved / out.declared_bytes : 0;
  if (share > 0) line += fmt::format(", {:.2f} times what the work needs", share);
  if (facts.Has("l2_hit_rate")) {
    line += fmt::format("; {:.0f} % of accesses to L2 hit", facts.Longest("l2_hit_rate"));
  }
  out.lines.push_back(std::move(line));
  if (share >= kExtraTraffic) {
    out.lines.emplace_back("counters: data is read or written more often than necessary");
    AddTopics(out, {"cache", "memory"});
  }
  if (share > 0 && share < kMissingTraffic &&
      (out.bottleneck == "memory" || out.bottleneck == "near_limit")) {
    out.evidence_agrees = false;
    out.lines.emplace_back(
        "the evidence disagrees: much less memory is moved than the work declares, so part of it "
        "stays in the cache or the work formula counts too much");
  }
}

void Units(const Facts& facts, Diagnosis& out) {
  std::vector<std::string> busy;
  for (const auto& [fact, words] :
       {std::pair{"matrix_busy", "matrix units"}, std::pair{"vector_busy", "vector arithmetic"},
        std::pair{"issue_busy", "instruction issue"}}) {
    if (facts.Has(fact)) busy.push_back(fmt::format("{} {:.0f} %", words, facts.Longest(fact)));
  }
  if (!busy.empty()) out.lines.push_back(fmt::format("counters: busy: {}", fmt::join(busy, ", ")));
  const bool computes = std::max({facts.Longest("matrix_busy"), facts.Longest("vector_busy"),
                                  facts.Longest("issue_busy")}) >= kBusyUnit;
  if (computes) AddTopics(out, {"compute"});
  if (computes && out.bottleneck == "latency") out.bottleneck = "compute";
  if (!computes && out.bottleneck == "compute" && !busy.empty()) {
    out.evidence_agrees = false;
    out.lines.emplace_back("the evidence disagrees: the rate says arithmetic, yet no unit is busy");
  }
  if (facts.Has("achieved_occupancy") && facts.Longest("achieved_occupancy") < kFewWarps) {
    out.lines.push_back(fmt::format("counters: only {:.0f} % of the warps that fit are active",
                                    facts.Longest("achieved_occupancy")));
    AddTopics(out, {"occupancy", "latency"});
  }
  const double instructions = facts.Sum("instructions");
  const double conflicts = facts.Sum("shared_bank_conflicts");
  if (instructions > 0 && conflicts >= kConflicts * instructions) {
    out.lines.push_back(
        fmt::format("counters: {:.3g} bank conflicts in shared memory, {:.2f} for "
                    "each instruction",
                    conflicts, conflicts / instructions));
    AddTopics(out, {"bank_conflicts", "shared"});
  }
}

void Waits(const Facts& facts, Diagnosis& out) {
  const Wait* longest = nullptr;
  for (const Wait& wait : kWaits) {
    if (longest == nullptr || facts.Longest(wait.fact) > facts.Longest(longest->fact)) {
      longest = &wait;
    }
  }
  if (facts.Longest(longest->fact) < kLongWait) return;
  out.lines.push_back(
      fmt::format("counters: warps wait most {} ({:.1f} warps for each instruction)",
                  longest->words, facts.Longest(longest->fact)));
  for (const char* topic : longest->topics) {
    if (topic != nullptr) AddTopics(out, {topic});
  }
}

}  // namespace

void ReadCounters(const json& counters, Diagnosis& diagnosis) {
  if (!counters.is_object()) return;
  const auto absent = counters.find("absent");
  if (absent != counters.end() && absent->is_string() && !absent->get<std::string>().empty()) {
    diagnosis.lines.push_back("no counters: " +
                              CutText(absent->get<std::string>(), kAbsentReasonBytes));
    return;
  }
  const Facts facts(counters);
  Traffic(facts, diagnosis);
  Units(facts, diagnosis);
  Waits(facts, diagnosis);
}

}  // namespace fettle
