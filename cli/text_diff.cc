// SPDX-License-Identifier: Apache-2.0
#include "cli/text_diff.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace fettle {
namespace {

constexpr std::size_t kContext = 3;

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

using Ids = std::span<const int>;

// Lengths of the longest common subsequences of `a` with every prefix of `b`.
std::vector<int> PrefixScores(Ids a, Ids b, bool reversed) {
  std::vector<int> row(b.size() + 1, 0), next(b.size() + 1, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int left = reversed ? a[a.size() - 1 - i] : a[i];
      const int right = reversed ? b[b.size() - 1 - j] : b[j];
      next[j + 1] = left == right ? row[j] + 1 : std::max(row[j + 1], next[j]);
    }
    std::swap(row, next);
  }
  return row;
}

// Marks the members of a longest common subsequence (Hirschberg's algorithm).
void Align(Ids a, Ids b, std::size_t a0, std::size_t b0,
           std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    pairs.emplace_back(a0++, b0++);
    a = a.subspan(1);
    b = b.subspan(1);
  }
  std::size_t tail = 0;
  while (tail < a.size() && tail < b.size() && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  const std::size_t a_end = a0 + a.size() - tail, b_end = b0 + b.size() - tail;
  a = a.first(a.size() - tail);
  b = b.first(b.size() - tail);
  if (a.size() == 1) {
    const auto found = std::find(b.begin(), b.end(), a[0]);
    if (found != b.end()) {
      pairs.emplace_back(a0, b0 + static_cast<std::size_t>(found - b.begin()));
    }
  } else if (!a.empty() && !b.empty()) {
    const std::size_t middle = a.size() / 2;
    const std::vector<int> upper = PrefixScores(a.first(middle), b, /*reversed=*/false);
    const std::vector<int> lower = PrefixScores(a.subspan(middle), b, /*reversed=*/true);
    std::size_t cut = 0;
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (upper[j] + lower[b.size() - j] > upper[cut] + lower[b.size() - cut]) cut = j;
    }
    Align(a.first(middle), b.first(cut), a0, b0, pairs);
    Align(a.subspan(middle), b.subspan(cut), a0 + middle, b0 + cut, pairs);
  }
  for (std::size_t i = 0; i < tail; ++i) pairs.emplace_back(a_end + i, b_end + i);
}

struct Edit {
  char kind;         // ' ', '-', '+'
  std::size_t a, b;  // Lines before this one on either side.
  std::string_view text;
};

std::vector<Edit> Edits(const std::vector<std::string_view>& from,
                        const std::vector<std::string_view>& to) {
  std::map<std::string_view, int> ids;
  std::vector<int> a, b;
  for (const auto line : from)
    a.push_back(ids.emplace(line, static_cast<int>(ids.size())).first->second);
  for (const auto line : to)
    b.push_back(ids.emplace(line, static_cast<int>(ids.size())).first->second);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  Align(a, b, 0, 0, pairs);
  pairs.emplace_back(from.size(), to.size());
  std::vector<Edit> edits;
  std::size_t i = 0, j = 0;
  for (const auto& [pair_a, pair_b] : pairs) {
    for (; i < pair_a; ++i) edits.push_back({'-', i, j, from[i]});
    for (; j < pair_b; ++j) edits.push_back({'+', i, j, to[j]});
    if (i == from.size()) break;
    edits.push_back({' ', i++, j++, from[pair_a]});
  }
  return edits;
}

std::string Range(std::size_t begin, std::size_t count) {
  if (count == 1) return fmt::format("{}", begin + 1);
  return fmt::format("{},{}", count == 0 ? begin : begin + 1, count);
}

}  // namespace

std::string UnifiedDiff(const std::string& from_name, const std::string& from,
                        const std::string& to_name, const std::string& to) {
  const std::vector<std::string_view> from_lines = Lines(from), to_lines = Lines(to);
  const std::vector<Edit> edits = Edits(from_lines, to_lines);
  std::string text;
  std::size_t at = 0;
  while (true) {
    while (at < edits.size() && edits[at].kind == ' ') ++at;
    if (at == edits.size()) break;
    const std::size_t begin = at < kContext ? 0 : at - kContext;
    std::size_t end = at, last = at;  // The hunk ends where 2 * kContext lines are equal.
    while (end < edits.size() && end - last <= 2 * kContext) {
      if (edits[end].kind != ' ') last = end;
      ++end;
    }
    end = std::min(last + 1 + kContext, edits.size());
    std::size_t removed = 0, added = 0;
    std::string body;
    for (std::size_t i = begin; i < end; ++i) {
      removed += edits[i].kind != '+' ? 1 : 0;
      added += edits[i].kind != '-' ? 1 : 0;
      body += fmt::format("{}{}\n", edits[i].kind,
                          fmt::string_view(edits[i].text.data(), edits[i].text.size()));
    }
    if (text.empty()) text = fmt::format("--- {}\n+++ {}\n", from_name, to_name);
    text += fmt::format("@@ -{} +{} @@\n{}", Range(edits[begin].a, removed),
                        Range(edits[begin].b, added), body);
    at = end;
  }
  return text;
}

}  // namespace fettle
