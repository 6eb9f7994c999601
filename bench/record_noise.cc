// SPDX-License-Identifier: Apache-2.0
// Records A/A timing noise of this machine's CPU: pairs of calls of two separately compiled copies
// of one loop, in random order, as series,pair,pos,copy,us,mhz,host_ms
// (tests/data/noise/README.md).
#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/random.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

// Two copies of each loop: the template argument makes two functions of equal code.
template <int kCopy>
[[gnu::noinline, gnu::optimize("no-ipa-icf")]] void Multiply(std::span<float> data, int rounds) {
  for (float& value : data) {
    float x = value;
    for (int i = 0; i < rounds; ++i) x = x * 0.999f + 0.001f;
    value = x;
  }
}

template <int kCopy>
[[gnu::noinline, gnu::optimize("no-ipa-icf")]] void Move(std::span<const float> from,
                                                         std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i] + 1;
}

struct Series {
  std::string name;
  int pairs;
  std::function<void(int copy, std::uint64_t window)> call;
};

// Splits the work over two threads, as the cpu target does with its blocks.
void OnTwoThreads(const std::function<void(int half)>& work) {
  std::thread other(work, 1);
  work(0);
  other.join();
}

void Record(const Series& series, Clock::time_point start) {
  Random random(42);
  for (int i = 0; i < 20; ++i) series.call(i % 2, random.Next());  // Warm-up.
  for (int pair = 0; pair < series.pairs; ++pair) {
    const bool b_first = random.Uniform() < 0.5;
    for (int position = 0; position < 2; ++position) {
      const int copy = (position == 1) != b_first ? 1 : 0;
      const std::uint64_t window = random.Next();
      const Clock::time_point begin = Clock::now();
      series.call(copy, window);
      const Clock::time_point end = Clock::now();
      const std::chrono::duration<double, std::micro> took = end - begin;
      const std::chrono::duration<double, std::milli> since = begin - start;
      fmt::print("{},{},{},{},{:.2f},0,{:.1f}\n", series.name, pair, position,
                 copy == 0 ? 'A' : 'B', took.count(), since.count());
    }
  }
}

void RecordAll(int pairs) {
  constexpr std::size_t kFloats = std::size_t{1} << 24;  // 64 MiB: beyond most caches.
  std::vector<float> from(kFloats, 1.0f), to(kFloats, 0.0f);
  const auto fma = [&](std::size_t count, int rounds, int threads) {
    return [&from, count, rounds, threads](int copy, std::uint64_t) {
      const auto work = [&](int half) {
        const std::span<float> part(from.data() + static_cast<std::size_t>(half) * count, count);
        copy == 0 ? Multiply<0>(part, rounds) : Multiply<1>(part, rounds);
      };
      threads == 1 ? work(0) : OnTwoThreads(work);
    };
  };
  const auto move = [&](std::size_t count) {
    return [&from, &to, count](int copy, std::uint64_t window) {
      const std::size_t at = window % (kFloats - count);
      const std::span<const float> source(from.data() + at, count);
      const std::span<float> target(to.data() + at, count);
      copy == 0 ? Move<0>(source, target) : Move<1>(source, target);
    };
  };
  const std::vector<Series> all = {{"fma_small", pairs, fma(512, 64, 1)},
                                   {"fma_large", pairs, fma(16384, 64, 1)},
                                   {"fma_two_threads", pairs, fma(16384, 64, 2)},
                                   {"copy_256KB", pairs, move(1 << 16)},
                                   {"copy_8MB", pairs, move(1 << 21)}};
  fmt::print("series,pair,pos,copy,us,mhz,host_ms\n");
  const Clock::time_point start = Clock::now();
  for (const Series& series : all) Record(series, start);
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  CLI::App app{"Records A/A timing noise of this machine's CPU as CSV on standard output"};
  int pairs = 2000;
  app.add_option("--pairs", pairs, "per series")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  fettle::RecordAll(pairs);
  return 0;
}
