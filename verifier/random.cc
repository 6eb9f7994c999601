// SPDX-License-Identifier: Apache-2.0
#include "verifier/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fettle {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;

std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

double Horner(const double* coefficients, int count, double x) {
  double sum = coefficients[count - 1];
  for (int i = count - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// Wichura's AS 241 (PPND16): the normal quantile to about 1e-16.
constexpr double kA[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                          3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double kB[8] = {1.0,
                          4.2313330701600911252e1,
                          6.8718700749205790830e2,
                          5.3941960214247511077e3,
                          2.1213794301586595867e4,
                          3.9307895800092710610e4,
                          2.8729085735721942674e4,
                          5.2264952788528545610e3};
constexpr double kC[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                          5.76949722146069140550e0,  3.64784832476320460504e0,
                          1.27045825245236838258e0,  2.41780725177450611770e-1,
                          2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[8] = {1.0,
                          2.05319162663775882187e0,
                          1.67638483018380384940e0,
                          6.89767334985100004550e-1,
                          1.48103976427480074590e-1,
                          1.51986665636164571966e-2,
                          5.47593808499534494600e-4,
                          1.05075007164441684324e-9};
constexpr double kE[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                          1.78482653991729133580e0,  2.96560571828504891230e-1,
                          2.65321895265761230930e-2, 1.24266094738807843860e-3,
                          2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[8] = {1.0,
                          5.99832206555887937690e-1,
                          1.36929880922735805310e-1,
                          1.48753612908506148525e-2,
                          7.86869131145613259100e-4,
                          1.84631831751005468180e-5,
                          1.42151175831644588870e-7,
                          2.04426310338993978564e-15};

}  // namespace

std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t index) {
  return Mix(Mix(seed + kGolden) + (index + 1) * kGolden);
}

std::uint64_t RandomBelow(std::uint64_t bound, std::uint64_t seed, std::uint64_t index) {
  const Wide product = static_cast<Wide>(RandomBits(seed, index)) * bound;
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomUnit(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<double>(RandomBits(seed, index) >> 12) + 0.5) * 0x1p-52;
}

double RandomNormal(std::uint64_t seed, std::uint64_t index) {
  const double p = RandomUnit(seed, index);
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Horner(kA, 8, r) / Horner(kB, 8, r);
  }
  double r = std::sqrt(-PortableLog(q < 0 ? p : 1 - p));
  double value = 0;
  if (r <= 5) {
    r -= 1.6;
    value = Horner(kC, 8, r) / Horner(kD, 8, r);
  } else {
    r -= 5;
    value = Horner(kE, 8, r) / Horner(kF, 8, r);
  }
  return q < 0 ? -value : value;
}

std::uint64_t DeriveSeed(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return Mix(Mix(seed + kGolden) ^ hash) + Mix((index + 1) * kGolden);
}

double PortableLog(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 0;  // 2 atanh(s) / s - 2, |s| < 0.172
  for (int k = 23; k >= 3; k -= 2) series = (series + 2.0 / k) * z;
  return exponent * 0.6931471805599453 + (2 * s + s * series);
}

double PortableExp(double x) {
  const double scaled = x * 1.4426950408889634;
  const auto n = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, n);
}

RandomPermutation::RandomPermutation(std::uint64_t size, std::uint64_t seed)
    : size_(size), seed_(seed) {
  const int bits = size <= 1 ? 1 : static_cast<int>(std::bit_width(size - 1));
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t RandomPermutation::operator()(std::uint64_t index) const {
  // A four-round Feistel network over the next even power of two, walked until it lands inside.
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = RandomBits(seed_ + round, right) & mask;
      const std::uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

ZipfRanks::ZipfRanks(std::uint64_t size, double exponent) : size_(size), exponent_(exponent) {
  if (size <= kMostInTable) {
    double sum = 0;
    for (std::uint64_t rank = 0; rank < size; ++rank) {
      sum += PortableExp(-exponent * PortableLog(static_cast<double>(rank + 1)));
      sums_.push_back(sum);
    }
    return;
  }
  low_ = H(1.5) - 1;
  high_ = H(static_cast<double>(size) + 0.5);
  cut_ = 2 - InverseH(H(2.5) - PortableExp(-exponent * PortableLog(2)));
}

// The integral of x^-exponent, up to a constant.
double ZipfRanks::H(double x) const {
  const double log_x = PortableLog(x);
  const double t = (1 - exponent_) * log_x;
  if (std::fabs(t) < 1e-8) return log_x * (1 + t / 2);
  return (PortableExp(t) - 1) / (1 - exponent_);
}

double ZipfRanks::InverseH(double x) const {
  const double t = x * (1 - exponent_);
  if (std::fabs(t) < 1e-8) return PortableExp(x * (1 - t / 2));
  return PortableExp(PortableLog(t < -1 ? 1e-300 : 1 + t) / (1 - exponent_));
}

std::uint64_t ZipfRanks::Draw(std::uint64_t seed, std::uint64_t index) const {
  if (size_ <= 1) return 0;
  if (!sums_.empty()) {
    const double u = RandomUnit(seed, index) * sums_.back();
    const auto found = std::upper_bound(sums_.begin(), sums_.end() - 1, u);
    return static_cast<std::uint64_t>(found - sums_.begin());
  }
  for (std::uint64_t attempt = 0;; ++attempt) {
    const double u = high_ + RandomUnit(seed + attempt, index) * (low_ - high_);
    const double x = InverseH(u);
    double k = std::floor(x + 0.5);
    if (k < 1) k = 1;
    if (k > static_cast<double>(size_)) k = static_cast<double>(size_);
    if (k - x <= cut_ || u >= H(k + 0.5) - PortableExp(-exponent_ * PortableLog(k))) {
      return static_cast<std::uint64_t>(k) - 1;
    }
  }
}

}  // namespace fettle
