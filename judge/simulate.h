// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plays the measuring protocol over made-up or recorded timings, to find out how often the
// acceptance rule errs. Used by tests (a little) and by bench/judge (a lot); decides nothing in the
// product.

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/random.h"
#include "judge/accept.h"

namespace fettle::judge {

// Times of one pair of launches in any unit: baseline, candidate.
using TimedPair = std::pair<double, double>;
// The next pair; called once per pair in order.
using PairSource = std::function<TimedPair()>;

struct Protocol {
  int min_blocks = 20, max_blocks = 40, pairs_per_block = 10;
  double target_half_width = 0.005;  // Of ln ratio; EnoughBlocks.
};

// One case measured by the protocol: blocks are added until EnoughBlocks or max_blocks.
CaseMeasurement TakeBlocks(const PairSource& source, const Protocol& protocol);

// Launch times as they vary on real devices. All sizes are relative to the time.
struct NoiseModel {
  double white = 0.01;          // Standard deviation of each launch.
  double tail_df = 0;           // > 2: that noise is Student's t with so many degrees; 0: normal.
  double drift = 0.015;         // Deviation of a slow drift common to neighbouring launches ...
  double drift_launches = 200;  // ... and how many launches it takes to forget.
  double outlier_rate = 0.01;   // Launches delayed ...
  double outlier_size = 0.2;    // ... by up to this much.
  double second_in_pair =
      0.005;  // How much slower the second launch of a pair is; order is random.
};

// Pairs of a baseline of time 1 and a candidate faster by exp(log_ratio).
PairSource MakeNoise(const NoiseModel& model, double log_ratio, std::uint64_t seed);

struct RecordedSeries {
  std::string name;
  std::vector<TimedPair> pairs;  // Of two copies of one kernel, in the order measured.
};

// Reads series,pair,pos,copy,us,... (docs/acceptance.md). kInvalidArgument names the line.
absl::StatusOr<std::vector<RecordedSeries>> ParseNoise(std::string_view csv);

// A stretch of the record from a place chosen by `seed`, sides swapped half of the time, the
// candidate's times divided by exp(log_ratio). `series` must outlive it and holds >= 1 pair.
PairSource Replay(const RecordedSeries& series, double log_ratio, std::uint64_t seed);

// What came of many confirmations.
struct Tally {
  int trials = 0, wins = 0, ambiguous = 0, losses = 0, unmeasurable = 0;
  std::int64_t blocks = 0;
};

// Decides `trials` confirmations, each of `cases` cases and as the job's k-th, from fresh sources
// made by `make(seed)`.
Tally Confirm(const std::function<PairSource(std::uint64_t)>& make, int trials, int cases, int k,
              const Protocol& protocol, const AcceptanceRule& rule, std::uint64_t first_seed);

// How a job measures its candidates, by stage; a source gives the pairs of one stage.
struct JobProtocol {
  int candidates = 50;
  Protocol screening{.min_blocks = 4, .max_blocks = 4, .pairs_per_block = 3};
  Protocol search{.min_blocks = 20, .max_blocks = 20, .pairs_per_block = 5};
  Protocol confirmation;
};

// What came of many jobs: candidates that screening dropped, confirmations, accepted candidates,
// and jobs that accepted any.
struct JobTally {
  int jobs = 0, candidates = 0, screened = 0, confirmations = 0, wins = 0, jobs_with_a_win = 0;
};

// Plays `jobs` jobs: each candidate is screened, measured, and confirmed when it is a contender, as
// a server does it. Every stage of every candidate has a source of its own, made by `make(seed)`.
JobTally PlayJobs(const std::function<PairSource(std::uint64_t)>& make, int jobs,
                  const JobProtocol& protocol, const AcceptanceRule& rule,
                  std::uint64_t first_seed);

}  // namespace fettle::judge
