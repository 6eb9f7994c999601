// SPDX-License-Identifier: Apache-2.0
#include "compiler/diagnostics.h"

#include <array>
#include <charconv>

namespace fettle {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSeverities = {{
    {"fatal error: ", "error"},
    {"error: ", "error"},
    {"internal compiler error: ", "error"},
    {"sorry, unimplemented: ", "error"},
    {"warning: ", "warning"},
    {"note: ", "note"},
    {"remark: ", "remark"},
}};

// Reads ":<number>" and advances; 0 when there is none.
int TakeNumber(std::string_view& text) {
  int value = 0;
  if (!text.starts_with(':')) return 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool ParseLine(std::string_view line, Diagnostic& out) {
  for (const auto& [mark, severity] : kSeverities) {
    const std::size_t at = line.find(std::string(": ").append(mark));
    if (at == std::string_view::npos) continue;
    // Before the mark: file, file:line or file:line:column.
    const std::string_view place = line.substr(0, at);
    const std::size_t digit = place.find_last_not_of("0123456789:");
    const std::size_t colon = place.find(':', digit == std::string_view::npos ? 0 : digit);
    out = {};
    out.file = std::string(place.substr(0, colon));
    if (colon != std::string_view::npos) {
      std::string_view numbers = place.substr(colon);
      out.line = TakeNumber(numbers);
      out.column = TakeNumber(numbers);
    }
    if (out.line == 0 && out.file.find_first_of(" \t'") != std::string::npos) continue;  // Prose.
    out.severity = std::string(severity);
    out.text = std::string(line.substr(at + 2 + mark.size()));
    return true;
  }
  return false;
}

}  // namespace

std::vector<Diagnostic> ParseGnuDiagnostics(std::string_view log) {
  std::vector<Diagnostic> found;
  while (!log.empty() && found.size() < kMaxDiagnostics) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    Diagnostic diagnostic;
    if (ParseLine(line, diagnostic)) found.push_back(std::move(diagnostic));
  }
  return found;
}

std::string CleanLog(std::string log,
                     const std::vector<std::pair<std::string, std::string>>& replacements) {
  for (const auto& [from, to] : replacements) {
    for (std::size_t at = 0; (at = log.find(from, at)) != std::string::npos; at += to.size()) {
      log.replace(at, from.size(), to);
    }
  }
  std::erase_if(log,
                [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 127; });
  constexpr std::string_view kCut = "\n[log cut here]\n";
  if (log.size() > kMaxLogBytes) {
    std::size_t keep = kMaxLogBytes - kCut.size();
    while (keep > 0 && (static_cast<unsigned char>(log[keep]) & 0xC0) == 0x80) --keep;
    log.resize(keep);
    log.append(kCut);
  }
  return log;
}

CompileResult Rejection(const std::string& file, std::string text) {
  CompileResult result;
  result.log = fmt::format("{}: error: {}\n", file, text);
  result.diagnostics.push_back({file, 0, 0, "error", std::move(text)});
  return result;
}

}  // namespace fettle
