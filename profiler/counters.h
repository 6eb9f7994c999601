// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hardware counters as named facts with units, from the vendors' own profilers: their command lines
// and what they print. Counters explain a result; they are never the clock and decide nothing.
// Sources: Nsight Compute CLI manual (ncu); "Using rocprofv3" and the MI200/MI300 counter tables of
// ROCm's documentation.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/target.h"

namespace fettle {

struct CounterFact {
  std::string name;  // "dram_read_bytes": docs/counters.md lists them.
  double value = 0;
  std::string unit;  // "byte", "instruction", "percent", "cycle", "warp", "register", "count".
};

// One kernel's counters. Amounts are sums over its launches in one call of the operator;
// percentages and other ratios are means of its launches.
struct KernelCounters {
  std::string kernel;  // Symbol, as far as the profiler names it.
  int launches = 0;
  std::vector<CounterFact> facts;  // By name. What could not be counted is not there.
};

// What a run under a profiler gave. Absence is a value: `absent` says why there is nothing.
struct CounterReport {
  std::string tool;                  // "ncu", "rocprofv3".
  std::string absent;                // Empty when `kernels` is not.
  std::vector<std::string> missing;  // Counters that this profiler or device does not have.
  std::vector<KernelCounters> kernels;
};
nlohmann::json ToJson(const CounterReport& report);

// The profiler of a vendor: "ncu", "rocprofv3"; empty for the cpu.
std::string_view ProfilerOf(Vendor vendor);

// The counters to ask for, in passes that are each one run of the program.
std::vector<std::vector<std::string>> CounterPasses(Vendor vendor);

// The command line up to the program under the profiler. Only the kernels `symbols` are profiled.
//   ncu:       prints CSV on standard output.
//   rocprofv3: writes `folder`/counters_counter_collection.csv.
std::vector<std::string> ProfilerCommand(Vendor vendor, const std::string& program,
                                         const std::vector<std::string>& symbols,
                                         const std::vector<std::string>& counters,
                                         const std::string& folder);

// Raw counters by kernel: values of each launch.
using RawCounters = std::map<std::string, std::map<std::string, std::vector<double>>>;

// Adds what one pass gave. Lines around the table are skipped; a value that is no number is left
// out. kInvalidArgument: no table with the documented columns.
absl::Status AddNcuCsv(std::string_view text, RawCounters& counters);
absl::Status AddRocprofCsv(std::string_view text, RawCounters& counters);

// The named facts of what was counted.
std::vector<KernelCounters> CounterFacts(Vendor vendor, const RawCounters& counters);

}  // namespace fettle
