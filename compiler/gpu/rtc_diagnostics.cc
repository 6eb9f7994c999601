// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/rtc_diagnostics.h"

#include <array>
#include <cctype>
#include <charconv>

namespace fettle {
namespace {

constexpr std::size_t kMaxParsed = 200;

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

// "error: ...", "warning #177-D: ...", "catastrophic error: ..." into severity and text.
bool SplitSeverity(std::string_view rest, Diagnostic& diagnostic) {
  struct Word {
    std::string_view prefix, severity;
  };
  static constexpr std::array kWords{Word{"catastrophic error", "error"}, Word{"error", "error"},
                                     Word{"warning", "warning"}, Word{"remark", "remark"},
                                     Word{"note", "note"}};
  for (const Word& word : kWords) {
    if (!rest.starts_with(word.prefix)) continue;
    const std::size_t colon = rest.find(':', word.prefix.size());
    if (colon == std::string_view::npos) continue;
    const std::string_view between = rest.substr(word.prefix.size(), colon - word.prefix.size());
    if (!between.empty() && !between.starts_with(" #")) continue;
    diagnostic.severity = word.severity;
    rest.remove_prefix(colon + 1);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    diagnostic.text = rest;
    return true;
  }
  return false;
}

// "kernel.cu(12): error: ..."
bool ParseHead(std::string_view line, Diagnostic& diagnostic) {
  for (std::size_t open = line.find('('); open != std::string_view::npos;
       open = line.find('(', open + 1)) {
    const std::size_t close = line.find("): ", open);
    if (close == std::string_view::npos) return false;
    const char* begin = line.data() + open + 1;
    const char* end = line.data() + close;
    const auto [stopped, error] = std::from_chars(begin, end, diagnostic.line);
    if (error != std::errc() || stopped != end || open == 0) continue;
    diagnostic.file = line.substr(0, open);
    return SplitSeverity(line.substr(close + 3), diagnostic);
  }
  return false;
}

// "ptxas error   : ..." and "ptxas kernel, line 12; error   : ...".
bool ParsePtxas(std::string_view line, Diagnostic& diagnostic) {
  if (!line.starts_with("ptxas ")) return false;
  for (const auto& [word, severity] : {std::pair{"fatal ", "error"}, std::pair{"error ", "error"},
                                       std::pair{"warning ", "warning"}}) {
    const std::size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    const std::size_t colon = line.find(':', at);
    if (colon == std::string_view::npos) continue;
    diagnostic.severity = severity;
    diagnostic.file = "<ptx>";
    diagnostic.text = line.substr(std::min(line.size(), colon + 2));
    return true;
  }
  return false;
}

// The column of a caret under a source line that NVRTC indents by two; 0 when this is no caret.
int CaretColumn(std::string_view line) {
  const std::size_t caret = line.find_first_not_of(' ');
  if (caret == std::string_view::npos || line[caret] != '^' || caret < 2) return 0;
  return static_cast<int>(caret) - 1;
}

bool IsTemporary(std::string_view component) {
  return component.starts_with("comgr-") || component.starts_with("job-");
}

}  // namespace

std::vector<Diagnostic> ParseNvrtcDiagnostics(std::string_view log) {
  std::vector<Diagnostic> found;
  const std::vector<std::string_view> lines = Lines(log);
  for (std::size_t i = 0; i < lines.size() && found.size() < kMaxParsed; ++i) {
    Diagnostic diagnostic;
    if (ParsePtxas(lines[i], diagnostic)) {
      found.push_back(std::move(diagnostic));
      continue;
    }
    diagnostic = {};
    if (!ParseHead(lines[i], diagnostic)) continue;
    // The caret follows within a few lines: the source line may be wrapped.
    for (std::size_t j = i + 1; j < lines.size() && j <= i + 4; ++j) {
      Diagnostic next;
      if (ParseHead(lines[j], next)) break;
      if ((diagnostic.column = CaretColumn(lines[j])) > 0) break;
    }
    found.push_back(std::move(diagnostic));
  }
  return found;
}

std::string StripTemporaryFolders(std::string_view log) {
  std::string out;
  out.reserve(log.size());
  std::size_t at = 0;
  while (at < log.size()) {
    // A path begins at a slash that no name character comes before.
    const bool begins =
        log[at] == '/' && (at == 0 || std::isspace(static_cast<unsigned char>(log[at - 1])) != 0 ||
                           log[at - 1] == '"' || log[at - 1] == '\'' || log[at - 1] == '(');
    if (!begins) {
      out += log[at++];
      continue;
    }
    std::size_t end = at;
    while (end < log.size() && std::isspace(static_cast<unsigned char>(log[end])) == 0 &&
           log[end] != '"' && log[end] != '\'' && log[end] != ':') {
      ++end;
    }
    std::string_view path = log.substr(at, end - at);
    std::size_t keep = 0;  // Where the part to keep begins.
    for (std::size_t slash = 0; slash < path.size();) {
      const std::size_t next = std::min(path.find('/', slash + 1), path.size());
      const std::string_view component = path.substr(slash + 1, next - slash - 1);
      if (IsTemporary(component)) keep = next + 1;
      if (keep == slash + 1 && (component == "input" || component == "include")) keep = next + 1;
      slash = next;
    }
    if (keep > 0 && keep < path.size()) path.remove_prefix(keep);
    out += path;
    at = end;
  }
  return out;
}

}  // namespace fettle
