// SPDX-License-Identifier: Apache-2.0
// The bank of cheats on one target: how often each entry got each verdict, beside what a naive
// harness says of it (docs/results/bank.md).
//
//     bench/run bank [--target sm_90a] [--repetitions 3] [--threads 4] [--out FILE.json]
//
// Run in the repository's root. Exit code 1: a cheat was accepted, or an honest kernel was
// punished.
#include "tests/cheats/bank.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/local.h"
#include "core/status_macros.h"
#include "tests/cheats/naive.h"

namespace fettle {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string folder = "tests/cheats", target = "auto", only, out, cache;
  std::vector<std::string> kinds = {"cheat", "broken", "honest"};
  int repetitions = 1, threads = 1;
  double minutes = 0;
  bool naive = false, no_fettle = false;
  std::uint64_t seed = 20'000;
};

struct Row {
  const BankEntry* entry = nullptr;
  std::map<std::string, int> verdicts;  // "INCORRECT tolerance" -> times.
  int unexpected = 0, accepted = 0, failed = 0, runs = 0;
  int unshown = 0;  // On a GPU: neither wrong nor faster there, where the entry expects it wrong.
  std::string message;  // Of the first unexpected one.
  double seconds = 0;
  std::optional<NaiveVerdict> naive;
};

std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name).string();
}

class BankRun {
 public:
  BankRun(Options options, std::vector<BankEntry> bank)
      : options_(std::move(options)), bank_(std::move(bank)) {}

  absl::StatusOr<int> Run() {
    begin_ = Clock::now();
    if (options_.cache.empty()) {
      options_.cache = (std::filesystem::temp_directory_path() / "fettle-bank").string();
    }
    LocalFlags flags;
    flags.cache = options_.cache;
    FETTLE_ASSIGN_OR_RETURN(const LocalLab lab, LocalLab::Open(flags));
    options_.target = ChooseTarget(options_.target, *lab.runner);
    for (const BankEntry& entry : bank_) {
      const bool wanted = std::find(options_.kinds.begin(), options_.kinds.end(), entry.kind) !=
                              options_.kinds.end() &&
                          RunsOn(entry.targets, options_.target) &&
                          entry.id.find(options_.only) != std::string::npos;
      if (wanted) rows_.push_back({.entry = &entry});
    }
    if (options_.naive) FETTLE_RETURN_IF_ERROR(AskNaive(*lab.runner));
    if (!options_.no_fettle) AskFettle(*lab.runner, *lab.blobs);
    return Report(*lab.runner);
  }

 private:
  bool OutOfTime() const {
    return options_.minutes > 0 &&
           std::chrono::duration<double>(Clock::now() - begin_).count() > 60 * options_.minutes;
  }

  absl::Status AskNaive(const UnitRunner& runner) {
    NaiveJudge::Options naive{.folder = options_.folder,
                              .harness = BesideThisProgram("naive_harness"),
                              .cache_dir = options_.cache};
    for (const DeviceInfo& device : runner.devices()) {
      if (device.target.name != options_.target) continue;
      naive.device_id = device.id;
      naive.target = device.target;
      break;
    }
    FETTLE_ASSIGN_OR_RETURN(NaiveJudge judge, NaiveJudge::Create(naive));
    for (Row& row : rows_) {
      if (!row.entry->naive || !RunsOn(row.entry->naive->targets, options_.target)) continue;
      FETTLE_ASSIGN_OR_RETURN(row.naive, judge.Judge(*row.entry));
    }
    return absl::OkStatus();
  }

  // Every entry once, then every entry again; several at a time, so that compilers work while the
  // device is busy.
  void AskFettle(UnitRunner& runner, BlobStore& blobs) {
    BankJudge judge(runner, blobs, options_.folder, options_.target);
    std::atomic<std::size_t> next = 0;
    const std::size_t all = rows_.size() * static_cast<std::size_t>(options_.repetitions);
    const auto work = [&] {
      for (std::size_t i = next++; i < all && !OutOfTime(); i = next++) {
        Row& row = rows_[i % rows_.size()];
        const auto start = Clock::now();
        const auto record = judge.Judge(*row.entry, options_.seed + i);
        Note(row, record, std::chrono::duration<double>(Clock::now() - start).count());
      }
    };
    std::vector<std::jthread> threads;
    for (int i = 0; i < options_.threads; ++i) threads.emplace_back(work);
    threads.clear();
    confirmations_ = judge.confirmations();
  }

  void Note(Row& row, const absl::StatusOr<VerdictRecord>& record, double seconds) {
    const std::lock_guard lock(mutex_);
    row.seconds += seconds;
    ++row.runs;
    if (!record.ok()) {
      ++row.failed;
      row.message = std::string(record.status().message());
      return;
    }
    const std::string verdict(VerdictName(record->verdict));
    ++row.verdicts[verdict + " " + record->reason_code];
    const std::vector<std::string>& right = row.entry->expect;
    const bool expected = std::find(right.begin(), right.end(), verdict) != right.end();
    if (record->verdict == Verdict::kWin && row.entry->kind != "honest") ++row.accepted;
    if (expected) return;
    // What deceives by how a processor works may simply be slow elsewhere. It is never a win.
    const bool slow = record->verdict == Verdict::kNoWin || record->verdict == Verdict::kAmbiguous;
    if (row.entry->kind == "cheat" && options_.target != "cpu" && slow) {
      ++row.unshown;
      return;
    }
    ++row.unexpected;
    if (row.message.empty()) row.message = record->message;
  }

  absl::StatusOr<int> Report(const UnitRunner& runner) {
    struct Sum {
      int entries = 0, runs = 0, accepted = 0, unexpected = 0, unshown = 0, failed = 0;
    };
    std::map<std::string, Sum> sums;
    json list = json::array();
    int fooled = 0, asked = 0, naive_unexpected = 0;
    for (const Row& row : rows_) {
      std::string text;
      for (const auto& [verdict, times] : row.verdicts) {
        text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", times, verdict);
      }
      std::string naive = "-";
      if (row.naive) {
        naive = row.naive->correct ? fmt::format("fooled {:.1f}x", row.naive->ratio) : "not fooled";
        ++asked;
        fooled += row.naive->correct;
        naive_unexpected += row.naive->correct != row.entry->naive->fooled;
      }
      const bool bad = row.unexpected + row.failed > 0;
      fmt::print("{} {:<24} {:<14} {:6.1f} s  {}{}\n",
                 bad               ? "!"
                 : row.unshown > 0 ? "~"
                                   : " ",
                 row.entry->id, naive, row.seconds, text,
                 bad ? "  " + row.message.substr(0, 300) : "");
      Sum& sum = sums[row.entry->kind];
      ++sum.entries;
      sum.runs += row.runs;
      sum.accepted += row.accepted;
      sum.unexpected += row.unexpected;
      sum.unshown += row.unshown;
      sum.failed += row.failed;
      json item = {
          {"id", row.entry->id},          {"kind", row.entry->kind}, {"verdicts", row.verdicts},
          {"unexpected", row.unexpected}, {"unshown", row.unshown},  {"accepted", row.accepted},
          {"failed", row.failed},         {"seconds", row.seconds},  {"message", row.message}};
      if (row.naive) {
        item["naive"] = {{"correct", row.naive->correct},
                         {"ratio", row.naive->ratio},
                         {"note", row.naive->note},
                         {"expected", row.entry->naive->fooled}};
      }
      list.push_back(std::move(item));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    int accepted = 0, punished = 0;
    json totals = json::object();
    for (const auto& [kind, sum] : sums) {
      fmt::print(
          "{}: {} entries, {} runs, {} accepted, {} with another verdict than expected, {} neither "
          "wrong nor faster here, {} not judged\n",
          kind, sum.entries, sum.runs, sum.accepted, sum.unexpected, sum.unshown, sum.failed);
      totals[kind] = {{"entries", sum.entries},   {"runs", sum.runs},
                      {"accepted", sum.accepted}, {"unexpected", sum.unexpected},
                      {"unshown", sum.unshown},   {"failed", sum.failed}};
      if (kind == "honest") punished += sum.unexpected;
      accepted += sum.accepted;
    }
    if (asked > 0) {
      fmt::print("naive harness: fooled by {} of {}; {} otherwise than expected\n", fooled, asked,
                 naive_unexpected);
    }
    fmt::print("{} confirmations, {:.0f} s\n", confirmations_, seconds);
    json report = {{"target", options_.target}, {"repetitions", options_.repetitions},
                   {"seconds", seconds},        {"confirmations", confirmations_},
                   {"totals", totals},          {"naive_fooled", fooled},
                   {"naive_asked", asked},      {"entries", list}};
    for (const DeviceInfo& device : runner.devices()) {
      if (device.target.name == options_.target) {
        report["device"] = {{"model", device.model}, {"driver", device.driver}};
      }
    }
    if (!options_.out.empty()) {
      std::ofstream out(options_.out);
      out << report.dump(1) << "\n";
      if (!out) return absl::UnavailableError("write " + options_.out);
    }
    return accepted > 0 || punished > 0 ? 1 : 0;
  }

  Options options_;
  const std::vector<BankEntry> bank_;
  std::vector<Row> rows_;  // Guarded by mutex_ while threads run.
  std::mutex mutex_;
  int confirmations_ = 0;
  Clock::time_point begin_;
};

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  CLI::App app{"What fettle, and a naive harness, say of every entry of the bank of cheats"};
  fettle::Options options;
  app.add_option("--folder", options.folder, "the bank");
  app.add_option("--target", options.target, "architecture (auto: the best device found)");
  app.add_option("--kinds", options.kinds, "cheat, broken, honest");
  app.add_option("--only", options.only, "entries whose name holds this");
  app.add_option("--repetitions", options.repetitions, "of each entry")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "entries at a time")->check(CLI::Range(1, 64));
  app.add_option("--minutes", options.minutes, "begin no entry after this time; 0: no limit");
  app.add_option("--seed", options.seed, "of everything random");
  app.add_option("--cache", options.cache, "compile cache");
  app.add_option("--out", options.out, "write JSON to this file");
  app.add_flag("--naive", options.naive, "ask the naive harness too");
  app.add_flag("--only-naive", options.no_fettle, "do not ask fettle");
  CLI11_PARSE(app, argc, argv);
  options.naive = options.naive || options.no_fettle;
  auto bank = fettle::ReadBank(options.folder);
  if (!bank.ok()) {
    fmt::print(stderr, "bank: {}; run in the repository's root\n",
               std::string(bank.status().message()));
    return 3;
  }
  fettle::BankRun run(options, *std::move(bank));
  const absl::StatusOr<int> code = run.Run();
  if (code.ok()) return *code;
  fmt::print(stderr, "bank: {}\n", std::string(code.status().message()));
  return 3;
}
