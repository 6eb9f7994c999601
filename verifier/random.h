// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fettle {

// Counter-based random numbers: entry `index` of the stream `seed`, the same on every machine (only
// integer arithmetic and correctly rounded operations are used; random.cc is built without
// contraction).

std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t index);
// In [0, bound); `bound` > 0.
std::uint64_t RandomBelow(std::uint64_t bound, std::uint64_t seed, std::uint64_t index);
// In (0, 1), never an end point.
double RandomUnit(std::uint64_t seed, std::uint64_t index);
// Standard normal, by the inverse of the distribution function.
double RandomNormal(std::uint64_t seed, std::uint64_t index);
// Entries first, first + 1, ... of the two above; several times as fast as one by one.
void RandomUnits(std::uint64_t seed, std::uint64_t first, std::span<double> to);
void RandomNormals(std::uint64_t seed, std::uint64_t first, std::span<double> to);
// A seed for a named part of something seeded.
std::uint64_t DeriveSeed(std::uint64_t seed, std::string_view name, std::uint64_t index = 0);

// The logarithm and exponential that these use; within a few ulp of the true value.
double PortableLog(double x);  // x > 0, normal.
double PortableExp(double x);  // |x| <= 700.

// A bijection of [0, size) chosen by a seed, evaluated entry by entry.
class RandomPermutation {
 public:
  RandomPermutation(std::uint64_t size, std::uint64_t seed);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  std::uint64_t size_, seed_;
  int half_bits_ = 1;
};

// Zipf-distributed ranks: rank r in [0, size) with probability proportional to (r + 1)^-exponent.
// Small ranges are searched in a table of sums, large ones use rejection-inversion (four times as
// slow). `exponent` > 0.
class ZipfRanks {
 public:
  ZipfRanks(std::uint64_t size, double exponent);
  std::uint64_t Draw(std::uint64_t seed, std::uint64_t index) const;

 private:
  double H(double x) const;
  double InverseH(double x) const;
  static constexpr std::uint64_t kMostInTable = 65536;
  std::uint64_t size_;
  double exponent_, low_ = 0, high_ = 0, cut_ = 0;
  std::vector<double> sums_;  // Of the weights of ranks up to each; empty: the range is large.
};

}  // namespace fettle
