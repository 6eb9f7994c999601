// SPDX-License-Identifier: Apache-2.0
#include "judge/accept.h"

#include <cmath>

#include "core/status_macros.h"

namespace fettle::judge {
namespace {

// Per-case figures as every decision records them.
nlohmann::json CaseEvidence(const CaseMeasurement& one) {
  const LogRatioStats stats = SummarizeBlocks(one.block_log_ratios);
  return {{"case", one.case_label},
          {"ratio", std::exp(stats.mean)},
          {"standard_error", stats.standard_error},
          {"weight", one.weight},
          {"blocks", stats.blocks},
          {"discarded", one.discarded_blocks}};
}

double CaseMean(const CaseMeasurement& one) { return SummarizeBlocks(one.block_log_ratios).mean; }

// Weighted mean over the cases of the larger of the device's spread and the case's own.
double Spread(const Measurement& measurement, double aa_spread) {
  double sum = 0, weights = 0;
  for (const CaseMeasurement& one : measurement.cases) {
    const double weight = std::max(one.weight, 0.0);
    sum += weight * std::max(std::abs(aa_spread), std::abs(one.aa_spread));
    weights += weight;
  }
  return weights > 0 ? sum / weights : std::abs(aa_spread);
}

void Decide(ConfirmationDecision& decision, Verdict verdict, std::string reason,
            std::string case_label, std::string message) {
  decision.record.verdict = verdict;
  decision.record.reason_code = std::move(reason);
  decision.record.case_label = std::move(case_label);
  decision.record.message = std::move(message);
}

bool AllFinite(const CaseMeasurement& one) {
  return std::isfinite(one.weight) && std::isfinite(one.aa_spread) &&
         std::all_of(one.block_log_ratios.begin(), one.block_log_ratios.end(),
                     [](double value) { return std::isfinite(value); });
}

// Whether the data can be judged at all; else fills the verdict.
bool Measurable(const Measurement& measurement, const AcceptanceRule& rule,
                ConfirmationDecision& decision) {
  const auto refuse = [&](const char* reason, const CaseMeasurement& one, std::string message) {
    Decide(decision, Verdict::kUnmeasurable, reason, one.case_label, std::move(message));
    return false;
  };
  double weights = 0;
  for (const CaseMeasurement& one : measurement.cases) {
    if (!AllFinite(one)) {
      return refuse("invalid_sample", one, "a block's log-ratio is not finite");
    }
    weights += std::max(one.weight, 0.0);
    const auto kept = static_cast<std::int64_t>(one.block_log_ratios.size());
    if (kept < std::max(rule.min_blocks, 2)) {
      return refuse("too_few_blocks", one,
                    fmt::format("{} blocks were kept where {} are needed ({} discarded)", kept,
                                std::max(rule.min_blocks, 2), one.discarded_blocks));
    }
    const double taken = static_cast<double>(kept + one.discarded_blocks);
    if (static_cast<double>(kept) < rule.min_kept_fraction * taken) {
      return refuse("unsteady_device", one,
                    fmt::format("{} of {} blocks were discarded; let the device cool or lock its "
                                "clocks and confirm again",
                                one.discarded_blocks, kept + one.discarded_blocks));
    }
    if (one.roofline_fraction > rule.max_roofline_fraction) {
      return refuse("below_floor", one,
                    fmt::format("faster than the physical floor ({:.2f} of the roofline): the work "
                                "cannot have been done, or the task's `work` is not a lower bound",
                                one.roofline_fraction));
    }
  }
  if (weights > 0) return true;
  Decide(decision, Verdict::kUnmeasurable, "no_timed_case", "",
         "no timed case of positive weight was measured");
  return false;
}

const CaseMeasurement* SlowCase(const Measurement& measurement, double floor) {
  const CaseMeasurement* worst = nullptr;
  for (const CaseMeasurement& one : measurement.cases) {
    if (std::exp(CaseMean(one)) >= floor) continue;
    if (worst == nullptr || CaseMean(one) < CaseMean(*worst)) worst = &one;
  }
  return worst;
}

void FillEvidence(const Measurement& measurement, int k, ConfirmationDecision& decision) {
  nlohmann::json cases = nlohmann::json::array();
  for (const CaseMeasurement& one : measurement.cases) {
    if (AllFinite(one)) cases.push_back(CaseEvidence(one));
  }
  decision.record.evidence = {{"ratio", decision.ratio},
                              {"lower_bound", decision.lower_bound},
                              {"threshold", decision.threshold},
                              {"alpha", decision.alpha},
                              {"confirmation", k},
                              {"standard_error", decision.stats.standard_error},
                              {"degrees_of_freedom", decision.stats.degrees_of_freedom},
                              {"blocks", decision.stats.blocks},
                              {"cases", std::move(cases)}};
}

void DecideMeasurable(const Measurement& measurement, const AcceptanceRule& rule,
                      ConfirmationDecision& decision) {
  if (const CaseMeasurement* slow = SlowCase(measurement, rule.case_floor); slow != nullptr) {
    Decide(decision, Verdict::kNoWin, "shape_slower", slow->case_label,
           fmt::format("{:.3f}x the baseline's speed where no case may fall below {:.2f}x",
                       std::exp(CaseMean(*slow)), rule.case_floor));
  } else if (decision.lower_bound > decision.threshold) {
    Decide(decision, Verdict::kWin, "confirmed", "",
           fmt::format("{:.3f}x, at least {:.3f}x at level {:.2g}", decision.ratio,
                       decision.lower_bound, decision.alpha));
  } else if (decision.ratio > decision.threshold) {
    Decide(decision, Verdict::kAmbiguous, "not_confirmed", "",
           fmt::format("{:.3f}x was seen, but only {:.3f}x is certain at level {:.2g} where more "
                       "than {:.3f}x is needed",
                       decision.ratio, decision.lower_bound, decision.alpha, decision.threshold));
  } else {
    Decide(decision, Verdict::kNoWin, "not_faster", "",
           fmt::format("{:.3f}x is not above the {:.3f}x that counts as a gain", decision.ratio,
                       decision.threshold));
  }
}

// Mean and standard error of ln(a / b) over the samples of one screening, robust against the odd
// outlier: median and scaled median deviation of the paired samples.
LogRatioStats PairedStats(const CaseMeasurement& one) {
  std::vector<double> pairs;
  for (const TimingBlock& block : one.blocks) {
    if (block.discarded) continue;
    for (std::size_t i = 0; i < std::min(block.a_ns.size(), block.b_ns.size()); ++i) {
      if (block.a_ns[i] > 0 && block.b_ns[i] > 0) {
        pairs.push_back(std::log(block.a_ns[i] / block.b_ns[i]));
      }
    }
  }
  if (pairs.empty()) pairs = one.block_log_ratios;
  LogRatioStats stats;
  stats.blocks = static_cast<std::int64_t>(pairs.size());
  if (pairs.empty()) return stats;
  stats.mean = Median(pairs);
  std::vector<double> deviations;
  deviations.reserve(pairs.size());
  for (const double value : pairs) deviations.push_back(std::abs(value - stats.mean));
  // 1.4826 makes the median deviation a standard deviation, 1.2533 the median's standard error.
  stats.standard_error = 1.4826 * 1.2533 * Median(std::move(deviations)) /
                         std::sqrt(static_cast<double>(pairs.size()));
  return stats;
}

}  // namespace

double ConfirmationAlpha(const AcceptanceRule& rule, int k) {
  FETTLE_CHECK(k >= 1);
  return rule.alpha / (static_cast<double>(k) * (static_cast<double>(k) + 1));
}

ConfirmationDecision DecideConfirmation(const Measurement& measurement, int k, double aa_spread,
                                        const AcceptanceRule& rule) {
  ConfirmationDecision decision;
  decision.record.stage = Stage::kConfirm;
  decision.alpha = ConfirmationAlpha(rule, k);
  if (Measurable(measurement, rule, decision)) {
    decision.stats = SummarizeMeasurement(measurement);
    decision.ratio = std::exp(decision.stats.mean);
    decision.lower_bound = std::exp(decision.stats.LowerBound(decision.alpha));
    decision.threshold = std::exp(
        std::max(std::log1p(rule.min_gain), rule.spread_factor * Spread(measurement, aa_spread)));
    DecideMeasurable(measurement, rule, decision);
  }
  FillEvidence(measurement, k, decision);
  return decision;
}

bool IsContender(const Measurement& measurement, double incumbent_ratio,
                 const AcceptanceRule& rule) {
  ConfirmationDecision ignored;
  if (!Measurable(measurement, rule, ignored)) return false;
  if (SlowCase(measurement, rule.case_floor) != nullptr) return false;
  const LogRatioStats stats = SummarizeMeasurement(measurement);
  if (stats.mean <= std::log(std::max(incumbent_ratio, 1.0)) + std::log1p(rule.min_step)) {
    return false;
  }
  return stats.LowerBound(rule.contender_alpha) > std::log1p(rule.min_gain);
}

bool BeatsIncumbent(const Measurement& against_incumbent, int k, const AcceptanceRule& rule) {
  ConfirmationDecision ignored;
  if (!Measurable(against_incumbent, rule, ignored)) return false;
  return SummarizeMeasurement(against_incumbent).LowerBound(ConfirmationAlpha(rule, k)) > 0;
}

namespace {

constexpr double kScreenMargin = 0.05, kScreenErrors = 4;

bool BelowFloor(const LogRatioStats& stats) {
  constexpr double kFloor = 0.98;
  const double most = stats.mean + std::max(kScreenMargin, kScreenErrors * stats.standard_error);
  return stats.blocks > 0 && most < std::log(kFloor);
}

}  // namespace

bool SlowerOnOneCase(const CaseMeasurement& screened) { return BelowFloor(PairedStats(screened)); }

bool ScreenedOut(const Measurement& screening, double incumbent_ratio) {
  double mean = 0, variance = 0, weights = 0;
  for (const CaseMeasurement& one : screening.cases) {
    const LogRatioStats stats = PairedStats(one);
    if (stats.blocks == 0) return false;
    if (BelowFloor(stats)) return true;
    const double weight = std::max(one.weight, 0.0);
    mean += weight * stats.mean;
    variance += weight * weight * stats.standard_error * stats.standard_error;
    weights += weight;
  }
  if (!(weights > 0)) return false;
  const double most =
      mean / weights + std::max(kScreenMargin, kScreenErrors * std::sqrt(variance) / weights);
  return most < std::log(std::max(incumbent_ratio, 1.0));
}

bool EnoughBlocks(std::span<const double> log_ratios, double target_half_width, int min_blocks) {
  const std::size_t n = log_ratios.size();
  const auto least = static_cast<std::size_t>(std::max(2, min_blocks));
  if (n < least) return false;
  double largest = 0;  // Variance of one block.
  for (std::size_t prefix = least; prefix <= n; ++prefix) {
    const double error = SummarizeBlocks(log_ratios.first(prefix)).standard_error;
    largest = std::max(largest, error * error * static_cast<double>(prefix));
  }
  const double count = static_cast<double>(n);
  const double half_width = StudentUpperQuantile(0.025, count - 1) * std::sqrt(largest / count);
  return half_width <= target_half_width;
}

}  // namespace fettle::judge
