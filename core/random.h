// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace fettle {

// SplitMix64: small, fast and the same on every machine (unlike the standard's distributions). Not
// for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // A stream of its own for each combination of keys.
  static Random For(std::initializer_list<std::uint64_t> keys) {
    Random random(0x243F6A8885A308D3ULL);
    for (const std::uint64_t key : keys)
      random.state_ = random.Next() ^ (key * 0xD6E8FEB86659FD93ULL);
    return random;
  }

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // In [0, count); count > 0. The bias of at most count / 2^64 does not matter here.
  std::uint64_t Below(std::uint64_t count) { return Next() % count; }
  // Standard normal (Box and Muller).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace fettle
