// SPDX-License-Identifier: Apache-2.0
#include "profiler/counters.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json_reader.h"

namespace fettle {
namespace {

// A fact and the profiler's counter that it is. Amounts add up over launches, ratios are averaged.
struct Source {
  const char* fact;
  const char* unit;
  const char* counter;
  double scale;
  bool adds;
  const char* without = nullptr;  // A counter whose amount is taken off, where it exists.
};

constexpr Source kNcu[] = {
    {"dram_read_bytes", "byte", "dram__bytes_read.sum", 1, true},
    {"dram_write_bytes", "byte", "dram__bytes_write.sum", 1, true},
    {"l2_bytes", "byte", "lts__t_bytes.sum", 1, true},
    {"l2_hit_rate", "percent", "lts__t_sector_hit_rate.pct", 1, false},
    {"l1_bytes", "byte", "l1tex__t_bytes.sum", 1, true},
    {"shared_bank_conflicts", "count", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 1,
     true},
    {"instructions", "instruction", "smsp__inst_executed.sum", 1, true},
    {"matrix_instructions", "instruction", "sm__inst_executed_pipe_tensor.sum", 1, true,
     // On Hopper additions and multiplications of half pairs go through the same pipe, and so do
     // constants that the compiler loads with them.
     "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"},
    {"matrix_busy", "percent", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 1,
     false},
    {"vector_busy", "percent", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", 1,
     false},
    {"issue_busy", "percent", "smsp__issue_active.avg.pct_of_peak_sustained_active", 1, false},
    {"achieved_occupancy", "percent", "sm__warps_active.avg.pct_of_peak_sustained_active", 1,
     false},
    {"registers_per_thread", "register", "launch__registers_per_thread", 1, false},
    // Warps that wait for the named reason whenever an instruction is issued.
    {"stall_long_scoreboard", "warp",
     "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 1, false},
    {"stall_short_scoreboard", "warp",
     "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio", 1, false},
    {"stall_barrier", "warp", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", 1,
     false},
    {"stall_memory_queue", "warp",
     "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio", 1, false},
    {"stall_shared_queue", "warp",
     "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio", 1, false},
    {"stall_arithmetic", "warp",
     "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio", 1, false},
    {"stall_wait", "warp", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", 1,
     false},
};

constexpr double kKilobyte = 1024;  // FETCH_SIZE and WRITE_SIZE count kilobytes.
constexpr Source kRocprof[] = {
    {"dram_read_bytes", "byte", "FETCH_SIZE", kKilobyte, true},
    {"dram_write_bytes", "byte", "WRITE_SIZE", kKilobyte, true},
    {"l2_hit_rate", "percent", "L2CacheHit", 1, false},
    {"l1_accesses", "count", "TCP_TOTAL_CACHE_ACCESSES_sum", 1, true},
    {"waves", "count", "SQ_WAVES", 1, true},
    {"vector_instructions", "instruction", "SQ_INSTS_VALU", 1, true},
    {"matrix_instructions", "instruction", "SQ_INSTS_MFMA", 1, true},
    {"matrix_busy", "percent", "MfmaUtil", 1, false},
    {"vector_busy", "percent", "VALUBusy", 1, false},
    {"shared_bank_conflict_cycles", "cycle", "SQ_LDS_BANK_CONFLICT", 1, true},
    {"stall_cycles", "cycle", "SQ_WAIT_INST_ANY", 4, true},  // Counts quarter cycles.
    {"memory_stall", "percent", "MemUnitStalled", 1, false},
    {"achieved_occupancy", "percent", "OccupancyPercent", 1, false},
};

// rocprofv3 fails a whole run whose counters do not fit together or are unknown, so they are few.
const std::vector<std::vector<std::string>> kRocprofPasses = {
    {"FETCH_SIZE"},
    {"WRITE_SIZE"},
    {"SQ_WAVES", "SQ_INSTS_VALU", "SQ_INSTS_MFMA"},
    {"SQ_LDS_BANK_CONFLICT", "SQ_WAIT_INST_ANY"},
    {"L2CacheHit"},
    {"TCP_TOTAL_CACHE_ACCESSES_sum"},
    {"OccupancyPercent"},
    {"MfmaUtil"},
    {"VALUBusy"},
    {"MemUnitStalled"},
};

std::span<const Source> SourcesOf(Vendor vendor) {
  if (vendor == Vendor::kNvidia) return kNcu;
  if (vendor == Vendor::kAmd) return kRocprof;
  return {};
}

// "^(a|b)$" with what is special in a regular expression escaped.
std::string ExactlyOneOf(const std::vector<std::string>& symbols) {
  std::string pattern;
  for (const std::string& symbol : symbols) {
    pattern += pattern.empty() ? "^(" : "|";
    for (const char c : symbol) {
      if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern.empty() ? "$^" : pattern + ")$";
}

// The fields of one line of CSV; quotes are doubled within quotes.
std::vector<std::string> Fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

template <typename F>
void ForEachLine(std::string_view text, F each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "1,234.5" as ncu groups digits; nothing for "n/a".
std::optional<double> Number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Columns of a table by name.
class Header {
 public:
  explicit Header(std::vector<std::string> names = {}) : names_(std::move(names)) {}
  bool empty() const { return names_.empty(); }
  bool Has(std::initializer_list<std::string_view> names) const {
    return std::all_of(names.begin(), names.end(), [this](std::string_view name) {
      return std::find(names_.begin(), names_.end(), name) != names_.end();
    });
  }
  std::string Of(const std::vector<std::string>& row, std::string_view name) const {
    const auto at = std::find(names_.begin(), names_.end(), name) - names_.begin();
    return static_cast<std::size_t>(at) < row.size() ? row[static_cast<std::size_t>(at)] : "";
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// A table that starts at the line with the columns `wanted`; `each(header, row)` gets its rows.
template <typename F>
absl::Status ReadTable(std::string_view text, std::string_view what,
                       std::initializer_list<std::string_view> wanted, F each) {
  Header header;
  ForEachLine(text, [&](std::string_view line) {
    if (header.empty()) {
      Header candidate(Fields(line));
      if (candidate.Has(wanted)) header = std::move(candidate);
      return;
    }
    const std::vector<std::string> row = Fields(line);
    if (row.size() == header.names().size()) each(header, row);
  });
  if (!header.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("read counters of {}: no table with the columns {}",
                                                what, fmt::join(wanted, ", ")));
}

}  // namespace

std::string_view ProfilerOf(Vendor vendor) {
  if (vendor == Vendor::kNvidia) return "ncu";
  return vendor == Vendor::kAmd ? "rocprofv3" : "";
}

std::vector<std::vector<std::string>> CounterPasses(Vendor vendor) {
  if (vendor == Vendor::kAmd) return kRocprofPasses;
  std::vector<std::string> all;  // ncu makes passes itself, replaying the kernel.
  for (const Source& source : SourcesOf(vendor)) {
    all.emplace_back(source.counter);
    if (source.without != nullptr) all.emplace_back(source.without);
  }
  if (all.empty()) return {};
  return {all};
}

std::vector<std::string> ProfilerCommand(Vendor vendor, const std::string& program,
                                         const std::vector<std::string>& symbols,
                                         const std::vector<std::string>& counters,
                                         const std::string& folder) {
  const std::string kernels = ExactlyOneOf(symbols);
  if (vendor == Vendor::kAmd) {
    std::vector<std::string> command = {program, "--pmc"};
    command.insert(command.end(), counters.begin(), counters.end());
    for (const std::string& word :
         {std::string("--mangled-kernels"), std::string("--kernel-include-regex"), kernels,
          std::string("--output-format"), std::string("csv"), std::string("-d"), folder,
          std::string("-o"), std::string("counters"), std::string("--")}) {
      command.push_back(word);
    }
    return command;
  }
  // Caches and clocks stay as the program has them: these are figures of an ordinary call.
  return {program,
          "--csv",
          "--print-units",
          "base",
          "--print-summary",
          "none",
          "--cache-control",
          "none",
          "--clock-control",
          "none",
          "--kernel-name-base",
          "mangled",
          "--kernel-name",
          "regex:" + kernels,
          "--metrics",
          fmt::format("{}", fmt::join(counters, ","))};
}

absl::Status AddNcuCsv(std::string_view text, RawCounters& counters) {
  return ReadTable(
      text, "ncu", {"Kernel Name", "Metric Name", "Metric Value"},
      [&counters](const Header& header, const std::vector<std::string>& row) {
        const auto value = Number(header.Of(row, "Metric Value"));
        if (!value) return;
        counters[header.Of(row, "Kernel Name")][header.Of(row, "Metric Name")].push_back(*value);
      });
}

absl::Status AddRocprofCsv(std::string_view text, RawCounters& counters) {
  return ReadTable(
      text, "rocprofv3", {"Kernel_Name", "Counter_Name", "Counter_Value"},
      [&counters](const Header& header, const std::vector<std::string>& row) {
        const auto value = Number(header.Of(row, "Counter_Value"));
        if (!value) return;
        counters[header.Of(row, "Kernel_Name")][header.Of(row, "Counter_Name")].push_back(*value);
      });
}

std::vector<KernelCounters> CounterFacts(Vendor vendor, const RawCounters& counters) {
  std::vector<KernelCounters> kernels;
  for (const auto& [name, values] : counters) {
    KernelCounters kernel{.kernel = name, .launches = 0, .facts = {}};
    for (const Source& source : SourcesOf(vendor)) {
      const auto found = values.find(source.counter);
      if (found == values.end() || found->second.empty()) continue;
      const std::vector<double>& launches = found->second;
      double value = std::accumulate(launches.begin(), launches.end(), 0.0) * source.scale;
      if (source.without != nullptr && values.contains(source.without)) {
        const std::vector<double>& others = values.at(source.without);
        value -= std::accumulate(others.begin(), others.end(), 0.0) * source.scale;
      }
      if (!source.adds) value /= static_cast<double>(launches.size());
      kernel.launches = std::max(kernel.launches, static_cast<int>(launches.size()));
      kernel.facts.push_back({source.fact, value, source.unit});
    }
    std::sort(kernel.facts.begin(), kernel.facts.end(),
              [](const CounterFact& a, const CounterFact& b) { return a.name < b.name; });
    if (!kernel.facts.empty()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

nlohmann::json ToJson(const CounterReport& report) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelCounters& kernel : report.kernels) {
    nlohmann::json facts = nlohmann::json::object();
    for (const CounterFact& fact : kernel.facts) {
      facts[fact.name] = {{"value", JsonNumber(fact.value)}, {"unit", fact.unit}};
    }
    kernels.push_back({{"kernel", kernel.kernel}, {"launches", kernel.launches}, {"facts", facts}});
  }
  nlohmann::json out = {{"tool", report.tool}, {"kernels", std::move(kernels)}};
  if (!report.absent.empty()) out["absent"] = report.absent;
  if (!report.missing.empty()) out["missing"] = report.missing;
  return out;
}

}  // namespace fettle
