// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_changes.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "cli/text_diff.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Reads the hunks of a unified diff; runs of changed lines are hunks of their own.
std::vector<VariantChange> Hunks(const std::string& name, const std::string& from,
                                 const std::string& to) {
  std::vector<VariantChange> hunks;
  std::size_t at = 0;  // Line of `from`, from 0.
  bool open = false;
  for (const std::string& line : Lines(UnifiedDiff(name, from, name, to))) {
    if (line.starts_with("---") || line.starts_with("+++")) {
      if (hunks.empty() && !open) continue;  // The head; a changed line may look the same.
    }
    if (line.starts_with("@@ -")) {
      std::size_t begin = 1, count = 1;
      const char* end = line.data() + line.size();
      const auto [rest, error] = std::from_chars(line.data() + 4, end, begin);
      if (error == std::errc() && rest != end && *rest == ',')
        std::from_chars(rest + 1, end, count);
      at = count == 0 ? begin : begin - 1;  // A hunk without old lines names the line before it.
      open = false;
      continue;
    }
    const char mark = line.empty() ? ' ' : line[0];
    if (mark != '-' && mark != '+') {
      if (mark == ' ') ++at;
      open = false;
      continue;
    }
    if (!open) {
      hunks.push_back({.kind = VariantChange::Kind::kHunk,
                       .label = {},
                       .text = {},
                       .begin = at,
                       .removed = 0,
                       .added = {},
                       .tunable = {},
                       .value = 0});
      open = true;
    }
    VariantChange& hunk = hunks.back();
    hunk.text += line + "\n";
    if (mark == '-') {
      ++hunk.removed;
      ++at;
    } else {
      hunk.added.push_back(line.substr(1));
    }
  }
  for (VariantChange& hunk : hunks) {
    hunk.label = fmt::format("{}:{}: {} line{} for {}", name, hunk.begin + 1, hunk.added.size(),
                             hunk.added.size() == 1 ? "" : "s", hunk.removed);
  }
  return hunks;
}

bool SameTunables(const KernelSpec& a, const KernelSpec& b) {
  if (a.tunables.size() != b.tunables.size()) return false;
  for (std::size_t i = 0; i < a.tunables.size(); ++i) {
    if (a.tunables[i].name != b.tunables[i].name) return false;
  }
  return true;
}

std::string Texts(const std::vector<Expr>& exprs) {
  std::string text;
  for (const Expr& expr : exprs) text += expr.canonical() + ";";
  return text;
}

bool SamePlan(const KernelSpec& a, const KernelSpec& b) {
  return a.launches == b.launches && a.workspace == b.workspace && SameTunables(a, b) &&
         a.headers == b.headers && Texts(a.guards) == Texts(b.guards) && a.dialect == b.dialect &&
         a.lanes == b.lanes;
}

}  // namespace

std::vector<VariantChange> ChangesBetween(const KernelUnderTest& parent,
                                          const KernelUnderTest& winner) {
  std::vector<VariantChange> changes =
      Hunks(winner.kernel.source_name, parent.kernel.source, winner.kernel.source);
  if (!SamePlan(parent.kernel, winner.kernel)) {
    changes.push_back({.kind = VariantChange::Kind::kPlan,
                       .label = "launch plan, tunables and headers",
                       .text = {},
                       .begin = 0,
                       .removed = 0,
                       .added = {},
                       .tunable = {},
                       .value = 0});
    return changes;
  }
  for (const auto& [name, value] : winner.values) {
    const auto before = parent.values.find(name);
    if (before == parent.values.end() || before->second == value) continue;
    changes.push_back({.kind = VariantChange::Kind::kTunable,
                       .label = fmt::format("{}: {} for {}", name, value, before->second),
                       .text = {},
                       .begin = 0,
                       .removed = 0,
                       .added = {},
                       .tunable = name,
                       .value = value});
  }
  return changes;
}

KernelUnderTest ApplyChanges(const KernelUnderTest& parent, const KernelUnderTest& winner,
                             const std::vector<VariantChange>& changes,
                             const std::vector<bool>& kept) {
  FETTLE_CHECK(kept.size() == changes.size());
  KernelUnderTest result = parent;
  std::vector<std::string> lines;
  const std::vector<std::string> old_lines = Lines(parent.kernel.source);
  std::size_t at = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const VariantChange& change = changes[i];
    if (!kept[i]) continue;
    switch (change.kind) {
      case VariantChange::Kind::kHunk:
        for (; at < change.begin && at < old_lines.size(); ++at) lines.push_back(old_lines[at]);
        lines.insert(lines.end(), change.added.begin(), change.added.end());
        at = change.begin + change.removed;
        break;
      case VariantChange::Kind::kTunable:
        result.values[change.tunable] = change.value;
        break;
      case VariantChange::Kind::kPlan:
        result.kernel = winner.kernel;
        result.values = winner.values;
        break;
    }
  }
  for (; at < old_lines.size(); ++at) lines.push_back(old_lines[at]);
  result.kernel.source.clear();
  for (const std::string& line : lines) result.kernel.source += line + "\n";
  result.digest.clear();
  return result;
}

ChangeWorth WorthOf(bool works, double gain_low, double gain_high) {
  // What is left may be this much slower, with 95 % confidence, and still keep the gain.
  constexpr double kKeepsTheGain = 0.99;
  if (!works || gain_low > 1) return ChangeWorth::kNeeded;
  return 1 / gain_high >= kKeepsTheGain ? ChangeWorth::kNotNeeded : ChangeWorth::kUnclear;
}

std::string_view ChangeWorthName(ChangeWorth worth) {
  switch (worth) {
    case ChangeWorth::kNeeded:
      return "needed";
    case ChangeWorth::kUnclear:
      return "unclear";
    default:
      return "not needed";
  }
}

}  // namespace fettle
