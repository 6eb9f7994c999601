// SPDX-License-Identifier: Apache-2.0
// Replays recorded tuning spaces, or searches made-up ones, and prints how close each search
// strategy comes to the best configuration after a part of the space was evaluated
// (docs/search.md).
#include "agent/search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/gzip.h"
#include "bench/synthetic_spaces.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

struct RecordedSpace {
  std::string name;
  std::optional<TunableSpace> space;
  std::unordered_map<PointCode, std::optional<double>> cost;  // ln ms; unset: failed.
  double best = std::numeric_limits<double>::infinity();
};

// The T4 format: results[] with configuration, measurements and invalidity.
absl::StatusOr<RecordedSpace> Load(const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("results")) {
    return absl::InvalidArgumentError(fmt::format("read {}: not a T4 file with `results`", path));
  }
  RecordedSpace recorded;
  recorded.name = std::filesystem::path(path).stem().stem().string();
  std::map<std::string, std::vector<std::int64_t>> lists;
  for (const nlohmann::json& result : json["results"]) {
    for (const auto& [name, value] : result["configuration"].items()) {
      std::vector<std::int64_t>& list = lists[name];
      const auto number = value.get<std::int64_t>();
      if (std::find(list.begin(), list.end(), number) == list.end()) list.push_back(number);
    }
  }
  std::vector<Tunable> tunables;
  for (auto& [name, values] : lists) {
    std::sort(values.begin(), values.end());
    tunables.push_back({name, values});
  }
  FETTLE_ASSIGN_OR_RETURN(const TunableSpace product, TunableSpace::Create(tunables, {}));
  std::vector<PointCode> points;
  for (const nlohmann::json& result : json["results"]) {
    TunableValues values;
    for (const auto& [name, value] : result["configuration"].items()) {
      values[name] = value.get<std::int64_t>();
    }
    points.push_back(*product.Code(values));
    std::optional<double> cost;
    if (result["invalidity"] == "correct") {
      for (const nlohmann::json& measurement : result["measurements"]) {
        if (measurement["name"] == "time") cost = std::log(measurement["value"].get<double>());
      }
    }
    recorded.cost[points.back()] = cost;
    if (cost.has_value()) recorded.best = std::min(recorded.best, *cost);
  }
  FETTLE_ASSIGN_OR_RETURN(recorded.space, TunableSpace::FromPoints(tunables, points));
  return recorded;
}

// Best-possible over best-found time after each of `counts` evaluations.
std::vector<double> Replay(const RecordedSpace& recorded, Search& search,
                           const std::vector<std::size_t>& counts) {
  std::vector<double> quality;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t n = 1; n <= counts.back(); ++n) {
    const std::optional<Search::Suggestion> next = search.Next();
    if (next.has_value()) {
      const std::optional<double> cost = recorded.cost.at(next->point);
      if (cost.has_value()) best = std::min(best, *cost);
      search.Observe({next->point, cost, next->technique});
    }
    if (std::find(counts.begin(), counts.end(), n) != counts.end()) {
      quality.push_back(std::exp(recorded.best - best));
    }
  }
  return quality;
}

struct Options {
  std::string folder;
  std::uint64_t first_seed = 1;
  int seeds = 50;
  std::string only;
};

using StrategyMaker = std::function<std::unique_ptr<SearchStrategy>()>;

// One or more instances of a kind of space, of about the same size; run i uses the i-th, in turn.
using Instances = std::vector<RecordedSpace>;

void RunStrategy(const Instances& instances, const std::string& name, const StrategyMaker& make,
                 const Options& options) {
  constexpr std::array<double, 4> kParts = {0.01, 0.02, 0.05, 0.10};
  std::array<std::vector<double>, kParts.size()> qualities;
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.first_seed + static_cast<std::uint64_t>(i);
    const RecordedSpace& recorded = instances[static_cast<std::size_t>(i) % instances.size()];
    std::vector<std::size_t> counts;
    for (const double part : kParts) {
      counts.push_back(
          static_cast<std::size_t>(part * static_cast<double>(*recorded.space->size())));
    }
    const auto budget = static_cast<std::int64_t>(counts.back());
    const auto search = make == nullptr
                            ? std::make_unique<Search>(*recorded.space, seed, budget)
                            : std::make_unique<Search>(*recorded.space, seed, budget, make());
    const std::vector<double> quality = Replay(recorded, *search, counts);
    for (std::size_t c = 0; c < counts.size(); ++c) qualities[c].push_back(quality[c]);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  fmt::print("{:<10}", name);
  for (std::vector<double>& values : qualities) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    const double median = 0.5 * (values[(n - 1) / 2] + values[n / 2]);
    const auto close = values.end() - std::lower_bound(values.begin(), values.end(), 0.95);
    fmt::print("  {:.3f} ({:.3f}) {:3.0f} %", median, values[n / 10],
               100.0 * static_cast<double>(close) / static_cast<double>(n));
  }
  fmt::print("  {:6.1f} s\n", took.count());
  std::fflush(stdout);
}

void RunStrategies(const Instances& instances, const Options& options) {
  const std::vector<std::pair<std::string, StrategyMaker>> strategies = {
      {"random", MakeRandomStrategy},   {"greedy", MakeGreedyStrategy},
      {"genetic", MakeGeneticStrategy}, {"annealing", MakeAnnealingStrategy},
      {"model", MakeModelStrategy},     {"tuner", nullptr}};
  fmt::print(
      "median (10th percentile) of best-possible over best-found time, runs at 0.95 or more\n");
  fmt::print("{:<10}  {:<19}  {:<19}  {:<19}  {:<19}\n", "strategy", "1 %", "2 %", "5 %", "10 %");
  for (const auto& [name, make] : strategies) {
    if (options.only.empty() || options.only == name) RunStrategy(instances, name, make, options);
  }
}

RecordedSpace FromSynthetic(SyntheticSpace made) {
  RecordedSpace recorded{std::move(made.name), std::move(made.space), {}, 0};
  for (std::uint64_t rank = 0; rank < made.cost.size(); ++rank) {
    recorded.cost[recorded.space->At(rank)] = made.cost[rank];
  }
  return recorded;
}

void RunSynthetic(const Options& options) {
  constexpr std::uint64_t kInstances = 10;
  for (const auto make : {MakeInteractingSpace, MakeRuggedSpace, MakePlateauSpace}) {
    Instances instances;
    for (std::uint64_t i = 0; i < kInstances; ++i) instances.push_back(FromSynthetic(make(i)));
    fmt::print("\n{}: {} instances of about {} configurations, {} seeds from {}\n",
               instances.front().name, kInstances, *instances.front().space->size(), options.seeds,
               options.first_seed);
    RunStrategies(instances, options);
  }
}

int Run(const Options& options) {
  if (options.folder.empty()) {
    RunSynthetic(options);
    return 0;
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
    const std::string path = entry.path().string();
    if (path.find("_T4.json") != std::string::npos) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    fmt::print(stderr, "search {}: no file named *_T4.json or *_T4.json.gz\n", options.folder);
    return 2;
  }
  for (const std::string& path : paths) {
    absl::StatusOr<RecordedSpace> recorded = Load(path);
    if (!recorded.ok()) {
      fmt::print(stderr, "{}\n", recorded.status().ToString());
      return 3;
    }
    fmt::print("\n{}: {} configurations, best {:.4f} ms, {} seeds from {}\n", recorded->name,
               *recorded->space->size(), std::exp(recorded->best), options.seeds,
               options.first_seed);
    Instances instances;
    instances.push_back(*std::move(recorded));
    RunStrategies(instances, options);
  }
  return 0;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  CLI::App app{"Replays recorded tuning spaces (T4 format) through the search strategies"};
  fettle::Options options;
  app.add_option("--spaces", options.folder, "folder with *_T4.json[.gz]; else made-up spaces");
  app.add_option("--seeds", options.seeds, "runs per strategy")->check(CLI::PositiveNumber);
  app.add_option("--first-seed", options.first_seed, "seed of the first run");
  app.add_option("--strategy", options.only, "only this one");
  CLI11_PARSE(app, argc, argv);
  return fettle::Run(options);
}
