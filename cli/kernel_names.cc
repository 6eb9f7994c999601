// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_names.h"

#include <algorithm>
#include <cctype>

namespace fettle {
namespace {

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The position after a comment or a quoted literal at `at`; `at` itself where there is none.
std::size_t SkipNonCode(std::string_view source, std::size_t at) {
  if (source.substr(at, 2) == "//") return std::min(source.find('\n', at), source.size());
  if (source.substr(at, 2) == "/*") {
    const std::size_t end = source.find("*/", at + 2);
    return end == std::string_view::npos ? source.size() : end + 2;
  }
  const char quote = source[at];
  if (quote != '"' && quote != '\'') return at;
  std::size_t end = at + 1;
  while (end < source.size() && source[end] != quote && source[end] != '\n') {
    end += source[end] == '\\' ? 2 : 1;
  }
  return std::min(end + 1, source.size());
}

// Words and single punctuation marks of the code.
std::vector<std::string_view> Tokens(std::string_view source) {
  std::vector<std::string_view> tokens;
  for (std::size_t at = 0; at < source.size();) {
    if (const std::size_t after = SkipNonCode(source, at); after != at) {
      at = after;
    } else if (IsWordChar(source[at])) {
      std::size_t end = at;
      while (end < source.size() && IsWordChar(source[end])) ++end;
      tokens.push_back(source.substr(at, end - at));
      at = end;
    } else {
      if (std::isspace(static_cast<unsigned char>(source[at])) == 0) {
        tokens.push_back(source.substr(at, 1));
      }
      ++at;
    }
  }
  return tokens;
}

}  // namespace

std::vector<std::string> FindPlainKernels(std::string_view source) {
  const std::vector<std::string_view> tokens = Tokens(source);
  std::vector<std::string> names;
  bool is_template = false;  // Since the last ';' or '}'.
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == ";" || tokens[i] == "}") is_template = false;
    if (tokens[i] == "template") is_template = true;
    if (tokens[i] != "__global__" || is_template) continue;
    // The name stands before the first parenthesis that no attribute owns.
    for (std::size_t j = i + 1; j + 1 < tokens.size() && tokens[j] != ";" && tokens[j] != "{"; ++j) {
      if (tokens[j + 1] != "(" || !IsWordChar(tokens[j][0])) continue;
      if (tokens[j] == "__launch_bounds__" || tokens[j] == "__attribute__") {
        int depth = 0;
        for (++j; j < tokens.size(); ++j) {
          depth += tokens[j] == "(" ? 1 : tokens[j] == ")" ? -1 : 0;
          if (depth == 0) break;
        }
        continue;
      }
      std::string name(tokens[j]);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      break;
    }
  }
  return names;
}

}  // namespace fettle
