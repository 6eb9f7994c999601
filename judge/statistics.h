// SPDX-License-Identifier: Apache-2.0
#pragma once

// The statistics behind acceptance. Pure functions over finite numbers.

#include <cstdint>
#include <span>
#include <vector>

#include "core/evidence.h"

namespace fettle::judge {

// P(T <= t) of Student's t with `df` > 0 degrees of freedom (need not be whole).
double StudentCdf(double t, double df);
// The t with P(T > t) = `upper_tail`, 0 < upper_tail < 1. Accurate in relative terms down to tails
// of 1e-12 and for df from 1 to infinity.
double StudentUpperQuantile(double upper_tail, double df);

// Mean of log-ratios, its standard error and the degrees of freedom of that error.
struct LogRatioStats {
  double mean = 0;                // ln ratio; > 0: the candidate is faster.
  double standard_error = 0;      // Of the mean.
  double degrees_of_freedom = 0;  // 0: no error can be estimated (fewer than two blocks).
  std::int64_t blocks = 0;        // Log-ratios that went in.

  // Bounds on the mean at one-sided level `alpha`. Infinite where no error can be estimated.
  double LowerBound(double alpha) const;
  double UpperBound(double alpha) const;
};

// Of one case.
LogRatioStats SummarizeBlocks(std::span<const double> log_ratios);

// Of all cases together: the weighted geometric mean of the cases' ratios,
//   mean = sum(w_c m_c) / W,  variance = sum((w_c / W)^2 s_c^2 / n_c),  W = sum(w_c),
// with degrees of freedom after Welch and Satterthwaite. A case measured more often does not count
// more. Cases of weight 0 are left out; no case of positive weight gives blocks = 0.
LogRatioStats SummarizeMeasurement(const Measurement& measurement);

struct Interval {
  double low = 0, high = 0;
};

// Percentile bootstrap interval of the mean, two-sided at `level` (0.95), drawn with `seed`; the
// same arguments give the same interval everywhere. For display only: over 20 blocks it is too
// narrow to decide on (docs/acceptance.md). Empty input gives [0, 0].
Interval BootstrapInterval(std::span<const double> log_ratios, double level, std::uint64_t seed);

// ln(median a / median b) of every block that was not discarded and holds samples of both sides.
std::vector<double> BlockLogRatios(std::span<const TimingBlock> blocks);

// How far apart two measurements of one kernel would typically come out, as |ln ratio|: the
// standard error of side a's odd samples against its even ones, block by block, scaled from halves
// to whole blocks. It knows nothing of effects of a module's placement, which only a real A/A run
// shows. 0 with fewer than two kept blocks of at least two samples.
double AaSpread(std::span<const TimingBlock> blocks);

// Median by value; 0 when empty.
double Median(std::vector<double> values);

}  // namespace fettle::judge
