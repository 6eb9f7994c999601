// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rules that decide what is kept (DESIGN.md 7 "Accept", docs/acceptance.md). Pure functions: no
// clock, no randomness, no I/O. In every measurement side a is the denominator (baseline) and side
// b the candidate, so a ratio above 1 means that the candidate is faster.

#include <span>

#include "core/evidence.h"
#include "core/verdict.h"
#include "judge/statistics.h"

namespace fettle::judge {

struct AcceptanceRule {
  double alpha = 0.01;             // Error budget of a whole job; the k-th confirmation gets
                                   // alpha / (k (k + 1)), which sums to alpha over all k.
  double min_gain = 0.01;          // The bound must exceed ln(1 + min_gain) ...
  double spread_factor = 2;        // ... and this many times the A/A spread.
  double case_floor = 0.98;        // No timed case may be slower than this ratio.
  int min_blocks = 10;             // Kept blocks that every case needs.
  double min_kept_fraction = 0.5;  // Of the blocks taken; fewer means an unsteady device.
  double max_roofline_fraction =
      1.05;  // Faster than this over the physical floor is no measurement.
  // Selection of contenders (decides nothing final):
  double contender_alpha = 0.05;  // One-sided level of the bound over min_gain.
  double min_step = 0.005;        // By how much a contender must beat an incumbent.
};

// Level of the k-th confirmation of a job, k from 1.
double ConfirmationAlpha(const AcceptanceRule& rule, int k);

struct ConfirmationDecision {
  // kWin; kNoWin ("not_faster", "shape_slower"); kAmbiguous ("not_confirmed": the estimate is above
  // the threshold, the bound is not); kUnmeasurable ("no_timed_case", "invalid_sample",
  // "too_few_blocks", "unsteady_device", "below_floor"). Stage kConfirm.
  VerdictRecord record;
  LogRatioStats stats;
  double ratio = 1;        // exp of the combined mean: the speed-up over the denominator.
  double lower_bound = 0;  // exp of the one-sided bound that decided.
  double alpha = 0;        // Its level.
  double threshold = 0;    // Ratio that the bound had to exceed.
};

// Decides on the data of one confirmation alone. `k` counts the confirmations of this job that were
// measured, this one included, whatever they concluded. `aa_spread` is the device's own A/A spread
// as |ln ratio|; the larger of it and what the cases report is used.
ConfirmationDecision DecideConfirmation(const Measurement& measurement, int k, double aa_spread,
                                        const AcceptanceRule& rule);

// Whether a search measurement is worth a confirmation: the estimate beats the incumbent's ratio
// (1 where there is none) by `min_step`, no case lies below the floor, and the bound at
// `contender_alpha` exceeds `min_gain`.
bool IsContender(const Measurement& measurement, double incumbent_ratio,
                 const AcceptanceRule& rule);

// Whether a confirmed winner also beats the incumbent that it was measured beside (a: incumbent):
// its bound at the k-th confirmation's level is above 1.
bool BeatsIncumbent(const Measurement& against_incumbent, int k, const AcceptanceRule& rule);

// Whether a screening of a few launches shows the candidate clearly slower than the incumbent's
// ratio (1 where there is none), or one of its cases clearly below the floor of 0.98. Conservative:
// the estimate must miss by more than 5 % and by more than four standard errors.
bool ScreenedOut(const Measurement& screening, double incumbent_ratio);
// The second half of that: one case is reason enough, whatever others would show.
bool SlowerOnOneCase(const CaseMeasurement& screened);

// Whether one case has enough blocks: the two-sided 95 % t interval of the mean is at most
// `target_half_width` (of ln ratio) to either side, and there are at least `min_blocks`. Looks at
// the spread only, never at the mean, so that it cannot stop on a favourable value. Asked after
// each block it would still favour spreads that look small by chance; it therefore asks for the
// number of blocks that the largest spread over any prefix (from `min_blocks` on) needs.
inline constexpr int kMinBlocks = 20;
bool EnoughBlocks(std::span<const double> log_ratios, double target_half_width,
                  int min_blocks = kMinBlocks);

}  // namespace fettle::judge
