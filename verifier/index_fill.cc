// SPDX-License-Identifier: Apache-2.0
#include "verifier/index_fill.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "verifier/parallel.h"
#include "verifier/random.h"
#include "verifier/value_sets.h"

namespace fettle {
namespace {

constexpr std::int64_t kChunk = 1 << 14;

std::uint64_t U(std::int64_t value) { return static_cast<std::uint64_t>(value); }

template <typename Entry>
IndexValues Generate(std::int64_t count, const Entry& entry) {
  IndexValues values{
      std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(count)), count};
  ParallelFor(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] = entry(i);
  });
  return values;
}

IndexValues Listed(const std::vector<std::int64_t>& list) {
  return Generate(static_cast<std::int64_t>(list.size()),
                  [&list](std::int64_t i) { return list[static_cast<std::size_t>(i)]; });
}

// Lengths of runs, taken in turn; neighbouring runs differ.
std::vector<std::int64_t> Runs(const Fill& fill, std::int64_t count, std::uint64_t seed) {
  const std::uint64_t span = U(fill.hi - fill.lo);
  std::vector<std::int64_t> values;
  std::int64_t previous = -1;
  for (std::uint64_t run = 0; static_cast<std::int64_t>(values.size()) < count; ++run) {
    const std::int64_t length =
        std::max<std::int64_t>(1, fill.list[static_cast<std::size_t>(run % fill.list.size())]);
    auto value = static_cast<std::int64_t>(RandomBelow(span, seed, run));
    if (value == previous) value = static_cast<std::int64_t>((U(value) + 1) % span);
    previous = value;
    const std::int64_t room = count - static_cast<std::int64_t>(values.size());
    values.insert(values.end(), static_cast<std::size_t>(std::min(length, room)), fill.lo + value);
  }
  return values;
}

absl::StatusOr<std::vector<std::int64_t>> Offsets(const Fill& fill, std::int64_t count) {
  if (count != static_cast<std::int64_t>(fill.list.size()) + 1) {
    return absl::InvalidArgumentError(
        fmt::format("offsets of a list of {} entries need {} elements, the argument has {}",
                    fill.list.size(), fill.list.size() + 1, count));
  }
  std::vector<std::int64_t> values{0};
  for (const std::int64_t length : fill.list) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(values.back(), length, &sum)) {
      return absl::InvalidArgumentError("the offsets overflow 64 bits");
    }
    values.push_back(sum);
  }
  return values;
}

}  // namespace

absl::StatusOr<IndexValues> MakeIndices(const Fill& fill, std::int64_t count, std::uint64_t seed,
                                        InputSet set) {
  if (fill.kind == Fill::Kind::kIndexOffsets) {
    FETTLE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> offsets, Offsets(fill, count));
    return Listed(offsets);
  }
  if (fill.kind == Fill::Kind::kList) {
    if (count != static_cast<std::int64_t>(fill.list.size())) {
      return absl::InvalidArgumentError(
          fmt::format("the list has {} entries, the argument {}", fill.list.size(), count));
    }
    return Listed(fill.list);
  }
  if (count == 0) return IndexValues();
  if (fill.hi <= fill.lo) {
    return absl::InvalidArgumentError(
        fmt::format("the index range [{}, {}) is empty; give a range with at least one value",
                    fill.lo, fill.hi));
  }
  const std::uint64_t span = U(fill.hi - fill.lo);
  const bool free = fill.kind == Fill::Kind::kIndexUniform || fill.kind == Fill::Kind::kIndexZipf;
  if (free && IsIntegerSet(set)) {
    return Generate(count, [&](std::int64_t i) {
      return fill.lo + static_cast<std::int64_t>(IntegerOfSet(set, span, seed, U(i), U(count)));
    });
  }
  IndexValues values;
  switch (fill.kind) {
    case Fill::Kind::kIndexPermutation: {
      const RandomPermutation permutation(span, seed);
      return Generate(count, [&](std::int64_t i) {
        return fill.lo + static_cast<std::int64_t>(permutation(U(i) % span));
      });
    }
    case Fill::Kind::kIndexRepeated: {
      // Every drawn value stands about k times, in shuffled places.
      const std::int64_t k = std::max<std::int64_t>(1, std::llround(fill.a));
      const RandomPermutation places(U(count), seed + 1);
      return Generate(count, [&](std::int64_t i) {
        const std::uint64_t draw = places(U(i)) / U(k);
        return fill.lo + static_cast<std::int64_t>(RandomBelow(span, seed, draw));
      });
    }
    case Fill::Kind::kIndexRuns:
      if (fill.list.empty()) return absl::InvalidArgumentError("runs need at least one length");
      return Listed(Runs(fill, count, seed));
    case Fill::Kind::kIndexZipf: {
      // Ranks are scattered over the range, so that hot entries are no neighbours.
      const ZipfRanks ranks(span, fill.a > 0 ? fill.a : 1.0);
      const RandomPermutation scatter(span, seed + 1);
      values = Generate(count, [&](std::int64_t i) {
        return fill.lo + static_cast<std::int64_t>(scatter(ranks.Draw(seed, U(i))));
      });
      break;
    }
    default:
      values = Generate(count, [&](std::int64_t i) {
        return fill.lo + static_cast<std::int64_t>(RandomBelow(span, seed, U(i)));
      });
  }
  if (fill.kind == Fill::Kind::kIndexSorted) {
    std::sort(values.data.get(), values.data.get() + count);
  }
  if (set == InputSet::kEdgeValues && fill.kind != Fill::Kind::kIndexSorted && count >= 2) {
    const auto below = [seed](std::int64_t bound, std::uint64_t index) {
      return static_cast<std::int64_t>(RandomBelow(U(bound), seed + 2, index));
    };
    values[below(count / 2, 0)] = fill.hi - 1;
    values[count / 2 + below(count - count / 2, 1)] = fill.lo;
  }
  return values;
}

}  // namespace fettle
