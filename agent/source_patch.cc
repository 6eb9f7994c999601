// SPDX-License-Identifier: Apache-2.0
#include "agent/source_patch.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "core/text.h"

namespace fettle {
namespace {

constexpr std::size_t kQuotedBytes = 120;

struct Hunk {
  std::optional<std::size_t> line;  // From 0, in the old text.
  std::vector<std::string> before, after;
};

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    begin = end + 1;
  }
  return lines;
}

// "@@ -12,7 +12,9 @@": the first number.
std::optional<std::size_t> OldLine(const std::string& header) {
  const std::size_t minus = header.find('-');
  if (minus == std::string::npos) return std::nullopt;
  std::size_t line = 0;
  const auto [end, error] =
      std::from_chars(header.data() + minus + 1, header.data() + header.size(), line);
  if (error != std::errc() || line == 0) return std::nullopt;
  return line - 1;
}

std::vector<Hunk> ReadHunks(std::string_view diff) {
  std::vector<Hunk> hunks;
  for (const std::string& line : Lines(diff)) {
    if (line.starts_with("@@")) {
      hunks.push_back({OldLine(line), {}, {}});
      continue;
    }
    if (hunks.empty() || line.starts_with("\\")) continue;  // File names; "No newline at ...".
    Hunk& hunk = hunks.back();
    const char kind = line.empty() ? ' ' : line.front();
    const std::string text = line.empty() ? "" : line.substr(1);
    if (line.starts_with("diff ") || line.starts_with("--- ") || line.starts_with("+++ ")) continue;
    if (kind == '-' || kind == ' ') hunk.before.push_back(text);
    if (kind == '+' || kind == ' ') hunk.after.push_back(text);
  }
  // An empty last line of the diff is not context.
  if (!hunks.empty() && diff.ends_with("\n\n")) {
    Hunk& last = hunks.back();
    if (!last.before.empty() && last.before.back().empty()) last.before.pop_back();
    if (!last.after.empty() && last.after.back().empty()) last.after.pop_back();
  }
  return hunks;
}

bool MatchesAt(const std::vector<std::string>& lines, std::size_t at,
               const std::vector<std::string>& wanted) {
  if (at + wanted.size() > lines.size()) return false;
  return std::equal(wanted.begin(), wanted.end(), lines.begin() + static_cast<std::ptrdiff_t>(at));
}

// The longest prefix of `wanted` found anywhere; names the line where it stops.
std::string FirstDifference(const std::vector<std::string>& lines,
                            const std::vector<std::string>& wanted) {
  std::size_t best = 0;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    std::size_t same = 0;
    while (same < wanted.size() && at + same < lines.size() && lines[at + same] == wanted[same]) {
      ++same;
    }
    best = std::max(best, same);
  }
  return CutText(wanted[std::min(best, wanted.size() - 1)], kQuotedBytes);
}

absl::StatusOr<std::size_t> Place(const std::vector<std::string>& lines, const Hunk& hunk,
                                  std::size_t number) {
  if (hunk.before.empty()) {
    if (hunk.line.has_value() && *hunk.line <= lines.size()) return *hunk.line;
    return absl::InvalidArgumentError(
        fmt::format("patch: hunk {} has no context; give some lines around the change", number));
  }
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at + hunk.before.size() <= lines.size(); ++at) {
    if (MatchesAt(lines, at, hunk.before)) places.push_back(at);
  }
  if (places.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("patch: hunk {} does not match the parent's source at the line `{}`; read the "
                    "source again, or send it whole",
                    number, FirstDifference(lines, hunk.before)));
  }
  if (places.size() == 1) return places.front();
  if (!hunk.line.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("patch: hunk {} matches {} places; give more context", number, places.size()));
  }
  const auto distance = [&](std::size_t at) {
    return at > *hunk.line ? at - *hunk.line : *hunk.line - at;
  };
  return *std::min_element(places.begin(), places.end(),
                           [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

absl::StatusOr<std::string> ApplyUnifiedDiff(std::string_view source, std::string_view diff) {
  const std::vector<Hunk> hunks = ReadHunks(diff);
  if (hunks.empty()) {
    return absl::InvalidArgumentError("patch: no hunk; a unified diff with @@ lines is expected");
  }
  std::vector<std::string> lines = Lines(source);
  std::size_t number = 0;
  for (const Hunk& hunk : hunks) {
    absl::StatusOr<std::size_t> place = Place(lines, hunk, ++number);
    if (!place.ok()) return place.status();
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(*place);
    const auto after = lines.erase(begin, begin + static_cast<std::ptrdiff_t>(hunk.before.size()));
    lines.insert(after, hunk.after.begin(), hunk.after.end());
  }
  std::string result;
  for (const std::string& line : lines) result += line + "\n";
  return result;
}

absl::StatusOr<std::string> ApplyEdits(std::string source, const std::vector<SourceEdit>& edits) {
  std::size_t number = 0;
  for (const SourceEdit& edit : edits) {
    ++number;
    if (edit.find.empty()) {
      return absl::InvalidArgumentError(fmt::format("edits: edit {} has an empty `find`", number));
    }
    const std::size_t at = source.find(edit.find);
    const std::string quoted = CutText(edit.find.substr(0, edit.find.find('\n')), kQuotedBytes);
    if (at == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("edits: `{}` of edit {} is not in the parent's source", quoted, number));
    }
    if (source.find(edit.find, at + 1) != std::string::npos) {
      return absl::InvalidArgumentError(fmt::format(
          "edits: `{}` of edit {} occurs more than once; give more around it", quoted, number));
    }
    source.replace(at, edit.find.size(), edit.replace);
  }
  return source;
}

std::string NormalizeSource(std::string_view source) {
  std::string out;
  bool blank = false;
  const auto put = [&](char c) {
    if (blank && !out.empty() && IsWord(out.back()) && IsWord(c)) out += ' ';
    blank = false;
    out += c;
  };
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    const std::string_view rest = source.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size()) - 1;
      blank = true;
    } else if (rest.starts_with("/*")) {
      const std::size_t end = rest.find("*/", 2);
      i += (end == std::string_view::npos ? rest.size() : end + 2) - 1;
      blank = true;
    } else if (c == '"' || c == '\'') {
      put(c);
      while (++i < source.size() && source[i] != c && source[i] != '\n') {
        out += source[i];
        if (source[i] == '\\' && i + 1 < source.size()) out += source[++i];
      }
      if (i < source.size()) out += source[i];
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      blank = true;
    } else {
      put(c);
    }
  }
  return out;
}

}  // namespace fettle
