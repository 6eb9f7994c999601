// SPDX-License-Identifier: Apache-2.0
// How often the acceptance rule errs: over recorded launch times of identical kernels, and over
// simulated noise (docs/acceptance.md).
#include <cmath>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/gzip.h"
#include "judge/simulate.h"

namespace fettle::judge {
namespace {

struct Options {
  std::vector<std::string> noise;
  int replays = 6000;
  int jobs = 0, candidates = 50;
  int simulations = 4000;
  std::uint64_t seed = 1;
};

void PrintTally(const std::string& name, const Tally& none, const Tally& gain3,
                const Tally& gain5) {
  const auto percent = [](const Tally& tally) {
    return tally.trials > 0 ? 100.0 * tally.wins / tally.trials : 0.0;
  };
  fmt::print("{:<26} {:>5} of {:<6} {:>8.1f} % {:>8.1f} % {:>8.1f}\n", name, none.wins, none.trials,
             percent(gain3), percent(gain5), static_cast<double>(none.blocks) / none.trials);
  std::fflush(stdout);
}

void PrintHead(const std::string& what) {
  fmt::print("\n{}\n{:<26} {:>15} {:>10} {:>10} {:>8}\n", what, "", "false wins", "3 % found",
             "5 % found", "blocks");
}

// Jobs whose candidates are all the baseline itself, spread over the series of the record.
void PlayAaJobs(const std::vector<RecordedSeries>& all, const Options& options) {
  fmt::print(
      "\n{} jobs of {} candidates that are the baseline itself\n{:<26} {:>8} {:>10} {:>14} "
      "{:>11}\n",
      options.jobs, options.candidates, "", "jobs", "screened", "confirmations", "false wins");
  const auto count = static_cast<int>(all.size());
  JobTally total;
  for (int i = 0; i < count; ++i) {
    const RecordedSeries& one = all[static_cast<std::size_t>(i)];
    const int jobs = options.jobs / count + (i < options.jobs % count ? 1 : 0);
    const auto make = [&](std::uint64_t seed) { return Replay(one, 0, seed); };
    const JobTally tally = PlayJobs(make, jobs, {.candidates = options.candidates},
                                    AcceptanceRule{}, options.seed + static_cast<std::uint64_t>(i));
    fmt::print("{:<26} {:>8} {:>10} {:>14} {:>11}\n", one.name, tally.jobs, tally.screened,
               tally.confirmations, tally.jobs_with_a_win);
    std::fflush(stdout);
    total.jobs += tally.jobs;
    total.confirmations += tally.confirmations;
    total.jobs_with_a_win += tally.jobs_with_a_win;
  }
  fmt::print("jobs with a false win: {} of {} ({} confirmations)\n", total.jobs_with_a_win,
             total.jobs, total.confirmations);
}

int ReplayFile(const std::string& path, const Options& options) {
  const absl::StatusOr<std::string> text = ReadMaybeGzip(path);
  const auto series =
      text.ok() ? ParseNoise(*text) : absl::StatusOr<std::vector<RecordedSeries>>(text.status());
  if (!series.ok()) {
    fmt::print(stderr, "{}: {}\n", path, std::string(series.status().message()));
    return 3;
  }
  PrintHead(fmt::format("replays of {}", path));
  Tally total;
  const int each =
      (options.replays + static_cast<int>(series->size()) - 1) / static_cast<int>(series->size());
  for (const RecordedSeries& one : *series) {
    const auto run = [&](double gain, int trials) {
      const auto make = [&](std::uint64_t seed) { return Replay(one, std::log1p(gain), seed); };
      return Confirm(make, trials, /*cases=*/1, /*k=*/1, Protocol{}, AcceptanceRule{},
                     options.seed);
    };
    const Tally none = run(0, each);
    PrintTally(fmt::format("{} ({} pairs)", one.name, one.pairs.size()), none, run(0.03, 400),
               run(0.05, 400));
    total.trials += none.trials;
    total.wins += none.wins;
  }
  fmt::print("false wins in all: {} of {}\n", total.wins, total.trials);
  if (options.jobs > 0) PlayAaJobs(*series, options);
  return 0;
}

void Simulate(const Options& options) {
  const std::vector<std::pair<std::string, NoiseModel>> models = {
      {"white 1 %, drift 1.5 %", {}},
      {"heavy tails (t, df 3), 2 %", {.white = 0.02, .tail_df = 3}},
      {"strong drift 5 %", {.drift = 0.05, .drift_launches = 50}},
      {"10 % outliers up to 100 %", {.outlier_rate = 0.1, .outlier_size = 1}},
      {"white 8 %", {.white = 0.08}},
      {"position 3 %", {.second_in_pair = 0.03}},
  };
  for (const double truth : {0.0, 0.01}) {
    PrintHead(
        fmt::format("simulated noise, {} confirmations; false wins at a true gain of {:.0f} %{}",
                    options.simulations, 100 * truth, truth > 0 ? " (0.5 % are due)" : ""));
    for (const auto& [name, model] : models) {
      const auto run = [&, &noise = model](double gain, int trials) {
        const auto make = [&](std::uint64_t seed) {
          return MakeNoise(noise, std::log1p(gain), seed);
        };
        return Confirm(make, trials, 1, 1, Protocol{}, AcceptanceRule{}, options.seed);
      };
      PrintTally(name, run(truth, options.simulations), run(0.03, 400), run(0.05, 400));
    }
  }
}

int Run(const Options& options) {
  for (const std::string& path : options.noise) {
    if (const int code = ReplayFile(path, options); code != 0) return code;
  }
  if (options.simulations > 0) Simulate(options);
  return 0;
}

}  // namespace
}  // namespace fettle::judge

int main(int argc, char** argv) {
  CLI::App app{"Error rates of the acceptance rule on recorded and simulated noise"};
  fettle::judge::Options options;
  app.add_option("--noise", options.noise, "recorded A/A noise, CSV or gzip; may be repeated");
  app.add_option("--replays", options.replays, "A/A replays per file")->check(CLI::PositiveNumber);
  app.add_option("--simulations", options.simulations, "per noise model; 0: none");
  app.add_option("--jobs", options.jobs, "A/A jobs per file; 0: none");
  app.add_option("--candidates", options.candidates, "of each such job")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of everything random");
  CLI11_PARSE(app, argc, argv);
  return fettle::judge::Run(options);
}
