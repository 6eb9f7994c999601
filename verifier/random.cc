// SPDX-License-Identifier: Apache-2.0
#include "verifier/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/draw.h"

namespace fettle {
namespace {

__extension__ typedef unsigned __int128 Wide;

// Batches are worked through in pieces of this many, in registers and the first cache.
constexpr std::size_t kBatch = 512;

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The widest vectors that the machine has; the same bits on each.
#define FETTLE_VECTORS __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FETTLE_VECTORS
#endif

FETTLE_VECTORS void Units(draw::Bits stream, draw::Bits first, double* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = draw::UnitOf(draw::StreamBits(stream, first + i));
}

FETTLE_VECTORS void Centres(const double* units, double* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = draw::NormalCentre(units[i] - 0.5);
}

// Of the smaller side of each: in the far tail the value is wrong and the caller's business.
FETTLE_VECTORS void Tails(const double* sides, double* roots, double* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    roots[i] = FETTLE_SQRT(-draw::Log(sides[i]));
    to[i] = draw::NormalTail(roots[i]);
  }
}

void NormalsOf(const double* units, double* to, std::size_t count) {
  Centres(units, to, count);
  double sides[kBatch], roots[kBatch], tails[kBatch];
  std::uint16_t places[kBatch];
  std::size_t outside = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double q = units[i] - 0.5;
    places[outside] = static_cast<std::uint16_t>(i);
    sides[outside] = q < 0 ? units[i] : 1 - units[i];
    outside += std::fabs(q) > 0.425 ? 1 : 0;
  }
  Tails(sides, roots, tails, outside);
  for (std::size_t i = 0; i < outside; ++i) {
    const std::size_t at = places[i];
    const double value = roots[i] <= 5 ? tails[i] : draw::NormalFarTail(roots[i]);
    to[at] = units[at] < 0.5 ? -value : value;
  }
}

}  // namespace

std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t index) {
  return draw::StreamBits(draw::StreamOf(seed), index);
}

std::uint64_t RandomBelow(std::uint64_t bound, std::uint64_t seed, std::uint64_t index) {
  const Wide product = static_cast<Wide>(RandomBits(seed, index)) * bound;
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomUnit(std::uint64_t seed, std::uint64_t index) {
  return draw::UnitOf(RandomBits(seed, index));
}

double RandomNormal(std::uint64_t seed, std::uint64_t index) {
  return draw::NormalOf(RandomUnit(seed, index));
}

void RandomUnits(std::uint64_t seed, std::uint64_t first, std::span<double> to) {
  Units(draw::StreamOf(seed), first, to.data(), to.size());
}

void RandomNormals(std::uint64_t seed, std::uint64_t first, std::span<double> to) {
  const draw::Bits stream = draw::StreamOf(seed);
  double units[kBatch];
  for (std::size_t done = 0; done < to.size(); done += kBatch) {
    const std::size_t count = std::min(kBatch, to.size() - done);
    Units(stream, first + done, units, count);
    NormalsOf(units, &to[done], count);
  }
}

std::uint64_t DeriveSeed(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return draw::Mix(draw::StreamOf(seed) ^ hash) + draw::Mix((index + 1) * draw::kGolden);
}

double PortableLog(double x) { return draw::Log(x); }

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
