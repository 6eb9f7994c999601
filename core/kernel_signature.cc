// SPDX-License-Identifier: Apache-2.0
// Reads the signatures of __global__ functions from source text.

#include <algorithm>

#include "core/doc.h"
#include "core/skeleton.h"

namespace fettle {
namespace {

// The source with comments, strings, and preprocessor lines blanked out; positions stay.
std::string Blank(std::string_view source) {
  std::string out(source);
  const auto wipe = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < out.size(); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  bool line_start = true;
  for (std::size_t i = 0; i < source.size();) {
    const std::string_view rest = source.substr(i);
    std::size_t end = i + 1;
    if (rest.substr(0, 2) == "//") {
      end = std::min(source.find('\n', i), source.size());
      wipe(i, end);
    } else if (rest.substr(0, 2) == "/*") {
      const std::size_t close = source.find("*/", i + 2);
      end = close == std::string_view::npos ? source.size() : close + 2;
      wipe(i, end);
    } else if (rest[0] == '#' && line_start) {
      end = std::min(source.find('\n', i), source.size());
      while (end < source.size() && source[end - 1] == '\\') {
        end = std::min(source.find('\n', end + 1), source.size());
      }
      wipe(i, end);
    } else if (rest[0] == '"' || rest[0] == '\'') {
      while (end < source.size() && source[end] != rest[0] && source[end] != '\n') {
        end += source[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, source.size());
      wipe(i + 1, end - 1);
    }
    line_start = rest[0] == '\n' || (line_start && (rest[0] == ' ' || rest[0] == '\t'));
    i = end;
  }
  return out;
}

bool IsWordChar(char c) { return IsIdentifier(std::string_view(&c, 1)) || (c >= '0' && c <= '9'); }

std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
      ++i;
    } else if (IsWordChar(text[i])) {
      std::size_t end = i;
      while (end < text.size() && IsWordChar(text[end])) ++end;
      out.emplace_back(text.substr(i, end - i));
      i = end;
    } else {
      out.emplace_back(text.substr(i++, 1));
    }
  }
  return out;
}

// The index just past the bracket that closes the one at `open`; npos where it is not closed.
std::size_t Close(std::string_view text, std::size_t open, char opening, char closing) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

// Splits at commas outside brackets.
std::vector<std::string_view> SplitList(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    const std::string_view part = text.substr(start, i - start);
    if (part.find_first_not_of(" \n\t\r") != std::string_view::npos) out.push_back(part);
    start = i + 1;
  }
  return out;
}

KernelParameter ReadParameter(std::string_view text) {
  KernelParameter out;
  std::vector<std::string> tokens = Tokens(text.substr(0, text.find('=')));
  bool seen_star = false;
  std::vector<std::string> base;
  std::size_t array = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (token == "const") {
      if (!seen_star) out.is_const = true;
    } else if (token == "*" || token == "[") {
      seen_star = true;
      ++out.pointers;
      if (token == "[" && array == 0) array = i;
    } else if (token == "__restrict__" || token == "__restrict" || token == "restrict" ||
               token == "volatile" || token == "__grid_constant__" || token == "]" ||
               token == "struct" || token == "&") {
      continue;
    } else if (array == 0) {
      base.push_back(token);
    }
  }
  if (!base.empty() && IsIdentifier(base.back())) {
    out.name = base.back();
    base.pop_back();
  }
  for (const std::string& token : base) {
    const bool word = IsWordChar(token[0]);
    if (!out.base.empty() && word && IsWordChar(out.base.back())) out.base += ' ';
    out.base += token;
  }
  out.type = (out.is_const ? "const " : "") + out.base;
  out.type.append(static_cast<std::size_t>(out.pointers), '*');
  return out;
}

// `template <typename T, int N>` that ends just before `end`.
void ReadTemplate(std::string_view text, std::size_t end, KernelSignature& kernel) {
  const std::string_view before = text.substr(0, end);
  const std::size_t close = before.find_last_not_of(" \n\t\r");
  if (close == std::string_view::npos || before[close] != '>') return;
  const std::size_t start = before.rfind("template");
  if (start == std::string_view::npos) return;
  const std::size_t open = before.find('<', start);
  if (open == std::string_view::npos || Close(before, open, '<', '>') != close + 1) return;
  for (const std::string_view part : SplitList(before.substr(open + 1, close - open - 1))) {
    const std::vector<std::string> tokens = Tokens(part.substr(0, part.find('=')));
    if (tokens.size() < 2) continue;
    const bool type = tokens[0] == "typename" || tokens[0] == "class";
    (type ? kernel.type_parameters : kernel.value_parameters).push_back(tokens.back());
  }
}

}  // namespace

std::vector<KernelSignature> FindKernels(std::string_view source) {
  std::vector<KernelSignature> out;
  const std::string text = Blank(source);
  constexpr std::string_view kGlobal = "__global__";
  for (std::size_t at = text.find(kGlobal); at != std::string::npos;
       at = text.find(kGlobal, at + 1)) {
    // The name stands before the first parenthesis that is no attribute's.
    std::size_t open = at + kGlobal.size();
    std::string name;
    for (;;) {
      open = text.find('(', open);
      if (open == std::string::npos) break;
      const std::vector<std::string> before =
          Tokens(std::string_view(text).substr(at + kGlobal.size(), open - at - kGlobal.size()));
      name = before.empty() ? "" : before.back();
      if (name != "__launch_bounds__" && name != "__attribute__" && name != "(") break;
      open = Close(text, open, '(', ')');
      if (open == std::string::npos) break;
    }
    if (open == std::string::npos || !IsIdentifier(name)) continue;
    const std::size_t close = Close(text, open, '(', ')');
    if (close == std::string::npos) continue;
    KernelSignature kernel;
    kernel.name = name;
    std::size_t start = at;
    for (const std::string_view prefix : {"inline", "static", "inline", "extern"}) {
      const std::string_view before(text.data(), start);
      const std::size_t last = before.find_last_not_of(" \n\t\r\"");
      if (last != std::string_view::npos && last + 1 >= prefix.size() &&
          before.substr(last + 1 - prefix.size(), prefix.size()) == prefix) {
        start = last + 1 - prefix.size();
      }
    }
    ReadTemplate(text, start, kernel);
    for (const std::string_view part :
         SplitList(std::string_view(text).substr(open + 1, close - open - 2))) {
      kernel.parameters.push_back(ReadParameter(part));
    }
    if (kernel.parameters.size() == 1 && kernel.parameters[0].pointers == 0 &&
        (kernel.parameters[0].name == "void" || kernel.parameters[0].type == "void")) {
      kernel.parameters.clear();
    }
    const bool known = std::any_of(out.begin(), out.end(), [&](const KernelSignature& other) {
      return other.name == kernel.name && other.parameters.size() == kernel.parameters.size();
    });
    if (!known) out.push_back(std::move(kernel));  // A declaration and its definition count once.
  }
  return out;
}

}  // namespace fettle
