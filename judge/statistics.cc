// SPDX-License-Identifier: Apache-2.0
#include "judge/statistics.h"

#include <cmath>
#include <limits>

#include "core/random.h"
#include "core/status_macros.h"

namespace fettle::judge {
namespace {

// Continued fraction of the incomplete beta function (modified Lentz).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecision = 1e-16;
  const auto nonzero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= 2000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    const double step = d * c;
    fraction *= step;
    if (std::abs(step - 1) < kPrecision) break;
  }
  return fraction;
}

// Regularized incomplete beta function I_x(a, b); `y` is 1 - x, given apart to keep its digits.
double IncompleteBeta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * BetaFraction(a, b, x) / a;
  return 1 - std::exp(log_front) * BetaFraction(b, a, y) / b;
}

// P(T > t) for t >= 0, without cancellation.
double UpperTail(double t, double df) {
  if (std::isinf(t)) return 0;
  // Beyond this many degrees of freedom t and normal agree to 1e-9 where it matters, and the
  // continued fraction becomes slow.
  if (df > 1e7) return 0.5 * std::erfc(t / std::sqrt(2.0));
  const double square = t * t;
  return 0.5 * IncompleteBeta(df / 2, 0.5, df / (df + square), square / (df + square));
}

}  // namespace

double StudentCdf(double t, double df) {
  const double tail = UpperTail(std::abs(t), df);
  return t >= 0 ? 1 - tail : tail;
}

double StudentUpperQuantile(double upper_tail, double df) {
  FETTLE_CHECK(upper_tail > 0 && upper_tail < 1 && df > 0);
  if (upper_tail > 0.5) return -StudentUpperQuantile(1 - upper_tail, df);
  if (upper_tail == 0.5) return 0;
  double low = 0, high = 1;
  while (UpperTail(high, df) > upper_tail) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (UpperTail(middle, df) > upper_tail ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double LogRatioStats::LowerBound(double alpha) const {
  if (degrees_of_freedom <= 0) return -std::numeric_limits<double>::infinity();
  return mean - StudentUpperQuantile(alpha, degrees_of_freedom) * standard_error;
}

double LogRatioStats::UpperBound(double alpha) const {
  if (degrees_of_freedom <= 0) return std::numeric_limits<double>::infinity();
  return mean + StudentUpperQuantile(alpha, degrees_of_freedom) * standard_error;
}

LogRatioStats SummarizeBlocks(std::span<const double> log_ratios) {
  LogRatioStats stats;
  stats.blocks = static_cast<std::int64_t>(log_ratios.size());
  if (log_ratios.empty()) return stats;
  const double n = static_cast<double>(log_ratios.size());
  for (const double value : log_ratios) stats.mean += value / n;
  if (log_ratios.size() < 2) return stats;
  double squares = 0;
  for (const double value : log_ratios) squares += (value - stats.mean) * (value - stats.mean);
  stats.standard_error = std::sqrt(squares / (n - 1) / n);
  stats.degrees_of_freedom = n - 1;
  return stats;
}

LogRatioStats SummarizeMeasurement(const Measurement& measurement) {
  double total_weight = 0;
  for (const CaseMeasurement& one : measurement.cases) total_weight += std::max(one.weight, 0.0);
  LogRatioStats all;
  double variance = 0, fourth = 0;
  bool estimable = true;
  for (const CaseMeasurement& one : measurement.cases) {
    if (!(one.weight > 0)) continue;
    const LogRatioStats stats = SummarizeBlocks(one.block_log_ratios);
    const double share = one.weight / total_weight;
    all.blocks += stats.blocks;
    all.mean += share * stats.mean;
    const double part = share * share * stats.standard_error * stats.standard_error;
    variance += part;
    if (stats.degrees_of_freedom > 0) {
      fourth += part * part / stats.degrees_of_freedom;
      all.degrees_of_freedom += stats.degrees_of_freedom;  // The answer when no block varies.
    } else {
      estimable = false;
    }
  }
  all.standard_error = std::sqrt(variance);
  if (!estimable) {
    all.degrees_of_freedom = 0;
  } else if (fourth > 0) {
    all.degrees_of_freedom = variance * variance / fourth;
  }
  return all;
}

Interval BootstrapInterval(std::span<const double> log_ratios, double level, std::uint64_t seed) {
  FETTLE_CHECK(level > 0 && level < 1);
  if (log_ratios.empty()) return {};
  constexpr std::size_t kResamples = 2000;
  Random random(seed);
  std::vector<double> means(kResamples);
  const std::size_t n = log_ratios.size();
  for (double& mean : means) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += log_ratios[random.Below(n)];
    mean = sum / static_cast<double>(n);
  }
  std::sort(means.begin(), means.end());
  const auto at = [&](double fraction) {
    return means[static_cast<std::size_t>(std::lround(fraction * (kResamples - 1)))];
  };
  return {at((1 - level) / 2), at((1 + level) / 2)};
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

double AaSpread(std::span<const TimingBlock> blocks) {
  std::vector<double> ratios;
  for (const TimingBlock& block : blocks) {
    if (block.discarded || block.a_ns.size() < 2) continue;
    std::array<std::vector<double>, 2> halves;
    for (std::size_t i = 0; i < block.a_ns.size(); ++i) halves[i % 2].push_back(block.a_ns[i]);
    ratios.push_back(std::log(Median(std::move(halves[0])) / Median(std::move(halves[1]))));
  }
  return SummarizeBlocks(ratios).standard_error / std::sqrt(2.0);
}

std::vector<double> BlockLogRatios(std::span<const TimingBlock> blocks) {
  std::vector<double> ratios;
  for (const TimingBlock& block : blocks) {
    if (block.discarded || block.a_ns.empty() || block.b_ns.empty()) continue;
    ratios.push_back(std::log(Median(block.a_ns) / Median(block.b_ns)));
  }
  return ratios;
}

}  // namespace fettle::judge
