// SPDX-License-Identifier: Apache-2.0
#include "judge/simulate.h"

#include <charconv>
#include <cmath>

#include "core/status_macros.h"

namespace fettle::judge {
namespace {

// Student's t with `df` degrees of freedom, scaled to deviation 1; normal for df = 0.
double Draw(double df, Random& random) {
  const double normal = random.Normal();
  if (df <= 2) return normal;
  // Chi-square as a sum over whole degrees of freedom and one partial, which is close enough for
  // noise and needs no gamma sampler.
  double chi = 0, left = df;
  for (; left >= 1; left -= 1) {
    const double part = random.Normal();
    chi += part * part;
  }
  const double part = random.Normal();
  chi += left * part * part;
  return normal / std::sqrt(chi / df) * std::sqrt((df - 2) / df);
}

std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// One line of the record; false when it is none.
bool ParseLine(std::string_view line, std::string_view& series, char& copy, double& microseconds) {
  const std::vector<std::string_view> fields = Split(line);
  if (fields.size() < 5 || (fields[3] != "A" && fields[3] != "B")) return false;
  series = fields[0];
  copy = fields[3][0];
  const std::string_view number = fields[4];
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), microseconds);
  return error == std::errc() && end == number.data() + number.size() && microseconds > 0;
}

}  // namespace

CaseMeasurement TakeBlocks(const PairSource& source, const Protocol& protocol) {
  CaseMeasurement one;
  one.case_label = "timed/0";
  while (static_cast<int>(one.blocks.size()) < protocol.max_blocks) {
    TimingBlock block;
    for (int pair = 0; pair < protocol.pairs_per_block; ++pair) {
      const auto [a, b] = source();
      block.a_ns.push_back(a);
      block.b_ns.push_back(b);
    }
    one.block_log_ratios.push_back(std::log(Median(block.a_ns) / Median(block.b_ns)));
    one.blocks.push_back(std::move(block));
    if (static_cast<int>(one.blocks.size()) >= protocol.min_blocks &&
        EnoughBlocks(one.block_log_ratios, protocol.target_half_width)) {
      break;
    }
  }
  one.aa_spread = AaSpread(one.blocks);
  one.ratio = std::exp(SummarizeBlocks(one.block_log_ratios).mean);
  return one;
}

PairSource MakeNoise(const NoiseModel& model, double log_ratio, std::uint64_t seed) {
  Random random(seed);
  double drift = model.drift * random.Normal();
  return [=]() mutable -> TimedPair {
    const double keep = std::exp(-1 / model.drift_launches);
    const auto launch = [&](bool second) {
      drift = keep * drift + std::sqrt(1 - keep * keep) * model.drift * random.Normal();
      double log_time = drift + model.white * Draw(model.tail_df, random);
      if (random.Uniform() < model.outlier_rate) log_time += model.outlier_size * random.Uniform();
      return std::exp(log_time + (second ? model.second_in_pair : 0));
    };
    const bool candidate_first = random.Uniform() < 0.5;
    const double first = launch(false), second = launch(true);
    return {candidate_first ? second : first,
            (candidate_first ? first : second) * std::exp(-log_ratio)};
  };
}

absl::StatusOr<std::vector<RecordedSeries>> ParseNoise(std::string_view csv) {
  std::vector<RecordedSeries> all;
  double waiting = 0;  // Time of the first launch of a pair.
  char waiting_copy = 0;
  for (int number = 1; !csv.empty(); ++number) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    const std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (line.empty() || line[0] == '#' || line.starts_with("series,")) continue;
    std::string_view series;
    char copy = 0;
    double microseconds = 0;
    if (!ParseLine(line, series, copy, microseconds)) {
      return absl::InvalidArgumentError(fmt::format(
          "read the noise record: line {}: expected series,pair,pos,copy (A or B),us,...", number));
    }
    if (all.empty() || all.back().name != std::string(series)) {
      all.push_back({std::string(series), {}});
      waiting_copy = 0;
    }
    if (waiting_copy == 0) {
      waiting = microseconds;
      waiting_copy = copy;
      continue;
    }
    if (copy == waiting_copy) {
      return absl::InvalidArgumentError(fmt::format(
          "read the noise record: line {}: a pair must hold one launch of A and one of B", number));
    }
    const bool a_first = waiting_copy == 'A';
    all.back().pairs.emplace_back(a_first ? waiting : microseconds,
                                  a_first ? microseconds : waiting);
    waiting_copy = 0;
  }
  std::erase_if(all, [](const RecordedSeries& series) { return series.pairs.empty(); });
  if (all.empty()) return absl::InvalidArgumentError("read the noise record: it holds no pair");
  return all;
}

PairSource Replay(const RecordedSeries& series, double log_ratio, std::uint64_t seed) {
  FETTLE_CHECK(!series.pairs.empty());
  Random random(seed);
  std::size_t at = random.Below(series.pairs.size());
  const bool swap = random.Uniform() < 0.5;
  return [&series, at, swap, log_ratio]() mutable -> TimedPair {
    auto [a, b] = series.pairs[at];
    at = (at + 1) % series.pairs.size();
    if (swap) std::swap(a, b);
    return {a, b * std::exp(-log_ratio)};
  };
}

Tally Confirm(const std::function<PairSource(std::uint64_t)>& make, int trials, int cases, int k,
              const Protocol& protocol, const AcceptanceRule& rule, std::uint64_t first_seed) {
  Tally tally;
  for (int trial = 0; trial < trials; ++trial) {
    Measurement measurement;
    for (int one = 0; one < cases; ++one) {
      const auto index = static_cast<std::uint64_t>(trial) * static_cast<std::uint64_t>(cases) +
                         static_cast<std::uint64_t>(one);
      measurement.cases.push_back(
          TakeBlocks(make(Random::For({first_seed, index}).Next()), protocol));
      tally.blocks += static_cast<std::int64_t>(measurement.cases.back().blocks.size());
    }
    ++tally.trials;
    switch (DecideConfirmation(measurement, k, /*aa_spread=*/0, rule).record.verdict) {
      case Verdict::kWin:
        ++tally.wins;
        break;
      case Verdict::kAmbiguous:
        ++tally.ambiguous;
        break;
      case Verdict::kUnmeasurable:
        ++tally.unmeasurable;
        break;
      default:
        ++tally.losses;
        break;
    }
  }
  return tally;
}

JobTally PlayJobs(const std::function<PairSource(std::uint64_t)>& make, int jobs,
                  const JobProtocol& protocol, const AcceptanceRule& rule,
                  std::uint64_t first_seed) {
  JobTally tally;
  std::uint64_t turn = 0;
  const auto measure = [&](const Protocol& stage) {
    Measurement measurement;
    measurement.cases.push_back(TakeBlocks(make(Random::For({first_seed, turn++}).Next()), stage));
    return measurement;
  };
  for (int job = 0; job < jobs; ++job) {
    int confirmations = 0, wins = 0;
    double incumbent_ratio = 1;
    for (int candidate = 0; candidate < protocol.candidates; ++candidate) {
      ++tally.candidates;
      if (ScreenedOut(measure(protocol.screening), incumbent_ratio)) {
        ++tally.screened;
        continue;
      }
      if (!IsContender(measure(protocol.search), incumbent_ratio, rule)) continue;
      const ConfirmationDecision decision = DecideConfirmation(
          measure(protocol.confirmation), ++confirmations, /*aa_spread=*/0, rule);
      if (decision.record.verdict != Verdict::kWin) continue;
      ++wins;
      incumbent_ratio = decision.ratio;
    }
    ++tally.jobs;
    tally.confirmations += confirmations;
    tally.wins += wins;
    tally.jobs_with_a_win += wins > 0 ? 1 : 0;
  }
  return tally;
}

}  // namespace fettle::judge
