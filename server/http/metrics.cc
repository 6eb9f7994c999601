// SPDX-License-Identifier: Apache-2.0
#include "server/http/metrics.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/fleet/fleet.h"
#include "store/fleet_store.h"

namespace fettle {
namespace {

constexpr double kNsPerSecond = 1e9;

using Labels = std::vector<std::pair<const char*, std::string>>;

// Families in the order in which they are added, each with its help and type once.
class Exposition {
 public:
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void Sample(double value, const Labels& labels = {}) {
    text_ += name_;
    const char* separator = "{";
    for (const auto& [label, of] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", separator, label, EscapeLabel(of));
      separator = ",";
    }
    if (!labels.empty()) text_ += "}";
    text_ += fmt::format(" {}\n", value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  const char* name_ = "";
};

double FileBytes(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  return error ? 0 : static_cast<double>(size);
}

double ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void AddProcess(Exposition& out, const OptimizerParts& parts) {
  out.Family("fettle_build_info", "gauge", "1, with the version of the server.");
  out.Sample(1, {{"version", parts.version}});
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  out.Family("process_cpu_seconds_total", "counter", "CPU time of the server.");
  out.Sample(seconds(usage.ru_utime) + seconds(usage.ru_stime));
  out.Family("process_resident_memory_bytes", "gauge", "Memory of the server.");
  out.Sample(ResidentBytes());
  out.Family("fettle_database_bytes", "gauge", "Size of the database, and of its log.");
  const std::filesystem::path database = parts.store.data_dir() / "fettle.db";
  out.Sample(FileBytes(database), {{"file", "database"}});
  out.Sample(FileBytes(database.string() + "-wal"), {{"file", "wal"}});
}

void AddQueue(Exposition& out, const OptimizerParts& parts, const StoreTotals& totals) {
  out.Family("fettle_jobs", "gauge", "Jobs by state; queued ones wait for their turn.");
  for (const char* state : {"queued", "running", "succeeded", "failed", "cancelled"}) {
    const auto found = totals.jobs.find(state);
    out.Sample(found == totals.jobs.end() ? 0 : static_cast<double>(found->second),
               {{"state", state}});
  }
  const DispatcherCounts counts = parts.dispatcher.Counts();
  out.Family("fettle_units", "gauge", "Units of work that wait for a worker or are leased to one.");
  out.Sample(static_cast<double>(counts.pending), {{"state", "pending"}});
  out.Sample(static_cast<double>(counts.leased), {{"state", "leased"}});
  out.Family("fettle_leases_total", "counter", "Leases handed out since the server's start.");
  out.Sample(static_cast<double>(counts.leases));
  out.Family("fettle_lease_ends_total", "counter",
             "How leases ended since the server's start: with a result, or returned without.");
  out.Sample(static_cast<double>(counts.results), {{"how", "result"}});
  out.Sample(static_cast<double>(counts.returned), {{"how", "returned"}});
  out.Family("fettle_compiled_ahead_total", "counter",
             "Evaluations that a worker without a device had compiled, since the server's start.");
  out.Sample(static_cast<double>(counts.compiled_ahead));
}

void AddOutcomes(Exposition& out, const StoreTotals& totals) {
  out.Family("fettle_candidates_total", "counter", "Candidates that were proposed.");
  out.Sample(static_cast<double>(totals.candidates));
  out.Family("fettle_verdicts_total", "counter", "Candidates by verdict.");
  for (const auto& [verdict, count] : totals.verdicts) {
    out.Sample(static_cast<double>(count), {{"verdict", verdict}});
  }
  out.Family("fettle_variants", "gauge", "Variants by status.");
  for (const auto& [status, count] : totals.variants) {
    out.Sample(static_cast<double>(count), {{"status", status}});
  }
  out.Family("fettle_llm_calls_total", "counter", "Calls of agents: to models, and tries.");
  out.Sample(static_cast<double>(totals.agent_calls));
  out.Family("fettle_llm_tokens_total", "counter", "Tokens charged to jobs.");
  out.Sample(static_cast<double>(totals.tokens));
  out.Family("fettle_llm_usd_total", "counter", "Dollars charged to jobs.");
  out.Sample(totals.usd);
}

void AddEvaluated(Exposition& out, const EvaluationTotals& totals) {
  out.Family("fettle_evaluations_total", "counter", "Units with a stored result, by kind.");
  std::map<std::pair<std::string, std::string>, std::int64_t> busy_ns;
  for (const auto& [key, sum] : totals.by_device) {
    const auto& [kind, model, host] = key;
    out.Sample(static_cast<double>(sum.count),
               {{"kind", kind}, {"device_model", model}, {"host", host}});
    busy_ns[{model, host}] += sum.device_ns;
  }
  out.Family("fettle_device_busy_seconds_total", "counter",
             "Time for which devices ran what stored results tell of.");
  for (const auto& [device, ns] : busy_ns) {
    out.Sample(static_cast<double>(ns) / kNsPerSecond,
               {{"device_model", device.first}, {"host", device.second}});
  }
  out.Family("fettle_compiles_total", "counter", "Compilations, by whether the cache had them.");
  for (const bool hit : {true, false}) {
    const auto found = totals.compiles.find(hit);
    out.Sample(found == totals.compiles.end() ? 0 : static_cast<double>(found->second.count),
               {{"cache", hit ? "hit" : "miss"}});
  }
  out.Family("fettle_compile_seconds_total", "counter", "Time of compilations.");
  for (const bool hit : {true, false}) {
    const auto found = totals.compiles.find(hit);
    const double ns =
        found == totals.compiles.end() ? 0 : static_cast<double>(found->second.elapsed_ns);
    out.Sample(ns / kNsPerSecond, {{"cache", hit ? "hit" : "miss"}});
  }
}

void AddWorkers(Exposition& out, const std::vector<WorkerView>& workers) {
  std::map<std::string, int> states = {{"idle", 0}, {"busy", 0}, {"draining", 0}};
  for (const WorkerView& worker : workers) ++states[worker.state];
  out.Family("fettle_workers", "gauge", "Connected workers by state.");
  for (const auto& [state, count] : states) out.Sample(count, {{"state", state}});
  out.Family("fettle_worker_slots", "gauge", "Units that connected workers can hold.");
  for (const WorkerView& worker : workers) out.Sample(worker.slots, {{"worker", worker.id}});
  out.Family("fettle_worker_units", "gauge", "Units that connected workers hold.");
  for (const WorkerView& worker : workers) out.Sample(worker.held, {{"worker", worker.id}});
  const auto labels = [](const WorkerView& worker, const DeviceReport& report) {
    return Labels{{"worker", worker.id},
                  {"device", report.row.device_id},
                  {"device_model", report.row.model},
                  {"target", report.row.target}};
  };
  out.Family("fettle_device_load", "gauge", "Units that hold a device or wait for it.");
  for (const WorkerView& worker : workers) {
    for (const DeviceReport& report : worker.reports) {
      out.Sample(report.load, labels(worker, report));
    }
  }
  out.Family("fettle_device_healthy", "gauge", "1 while nothing is known to be wrong with it.");
  for (const WorkerView& worker : workers) {
    for (const DeviceReport& report : worker.reports) {
      out.Sample(report.row.health == "ok" ? 1 : 0, labels(worker, report));
    }
  }
}

void AddFleet(Exposition& out, const Fleet* fleet, std::int64_t held_s, std::int64_t used_ms) {
  const FleetCounts counts = fleet == nullptr ? FleetCounts{} : fleet->Counts();
  out.Family("fettle_fleet_workers", "gauge", "Workers of jobs that a batch system places.");
  out.Sample(counts.wanted, {{"state", "wanted"}});
  out.Sample(counts.running, {{"state", "running"}});
  out.Sample(counts.pending, {{"state", "pending"}});
  out.Family("fettle_fleet_device_seconds_total", "counter",
             "Time for which devices were held for such workers, busy or not.");
  out.Sample(static_cast<double>(held_s));
  out.Family("fettle_fleet_device_used_seconds_total", "counter",
             "Of that time, what kernels of those jobs ran for; the rest was idle.");
  out.Sample(static_cast<double>(used_ms) / 1000);
}

}  // namespace

std::string EscapeLabel(const std::string& value) {
  std::string out;
  for (const char c : ValidUtf8(value)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

absl::StatusOr<std::string> Metrics::Text() {
  const OptimizerParts& parts = calls_.parts();
  StoreTotals totals;
  EvaluationTotals evaluations;
  std::int64_t held_s = 0, used_ms = 0;
  {
    const std::lock_guard lock(mutex_);
    FETTLE_RETURN_IF_ERROR(parts.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(totals, ReadStoreTotals(db));
      FETTLE_ASSIGN_OR_RETURN(held_s, SumAllocations(db, ""));
      FETTLE_ASSIGN_OR_RETURN(used_ms, SumAllocatedUse(db));
      return AddEvaluations(db, evaluations_);
    }));
    evaluations = evaluations_;
  }
  Exposition out;
  AddProcess(out, parts);
  AddQueue(out, parts, totals);
  AddOutcomes(out, totals);
  AddEvaluated(out, evaluations);
  AddWorkers(out, parts.dispatcher.Workers());
  AddFleet(out, parts.fleet, held_s, used_ms);
  return out.Take();
}

}  // namespace fettle
