// SPDX-License-Identifier: Apache-2.0
#include "compiler/source_scan.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace fettle {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Walks the source once and blanks what is not code.
class Blanker {
 public:
  explicit Blanker(std::string_view source) : in_(source), out_(source) {}

  std::string Run() {
    while (at_ < in_.size()) {
      if (Starts("//")) {
        LineComment();
      } else if (Starts("/*")) {
        BlockComment();
      } else if (in_[at_] == '"') {
        if (IsRawPrefix())
          RawString();
        else
          Quoted('"');
      } else if (in_[at_] == '\'') {
        Quoted('\'');
      } else if (std::isdigit(static_cast<unsigned char>(in_[at_])) != 0 &&
                 (at_ == 0 || !IsWord(in_[at_ - 1]))) {
        Number();
      } else {
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  bool Starts(std::string_view text) const { return in_.substr(at_, text.size()) == text; }
  void Blank() {
    if (in_[at_] != '\n') out_[at_] = ' ';
    ++at_;
  }
  // A backslash before a line break continues a comment or literal on the next line.
  bool AtLineEnd() const {
    return in_[at_] == '\n' && (at_ == 0 || in_[at_ - 1] != '\\') &&
           (at_ < 2 || in_[at_ - 1] != '\r' || in_[at_ - 2] != '\\');
  }
  void LineComment() {
    while (at_ < in_.size() && !AtLineEnd()) Blank();
  }
  void BlockComment() {
    Blank();
    Blank();
    while (at_ < in_.size() && !Starts("*/")) Blank();
    for (int i = 0; i < 2 && at_ < in_.size(); ++i) Blank();
  }
  bool IsRawPrefix() const {
    if (at_ == 0 || in_[at_ - 1] != 'R') return false;
    std::size_t begin = at_ - 1;
    while (begin > 0 && IsWord(in_[begin - 1])) --begin;
    const std::string_view prefix = in_.substr(begin, at_ - begin);
    return prefix == "R" || prefix == "LR" || prefix == "uR" || prefix == "UR" || prefix == "u8R";
  }
  void RawString() {
    const std::size_t open = in_.find('(', at_);
    if (open == std::string_view::npos) {
      ++at_;
      return;
    }
    const std::string close =
        std::string(")").append(in_.substr(at_ + 1, open - at_ - 1)).append("\"");
    std::size_t end = in_.find(close, open);
    end = end == std::string_view::npos ? in_.size() : end + close.size() - 1;
    ++at_;
    while (at_ < end) Blank();
    if (at_ < in_.size()) ++at_;
  }
  void Quoted(char quote) {
    ++at_;
    while (at_ < in_.size() && in_[at_] != quote && !AtLineEnd()) {
      if (in_[at_] == '\\' && at_ + 1 < in_.size()) Blank();
      Blank();
    }
    if (at_ < in_.size() && in_[at_] == quote) ++at_;
  }
  // A pp-number, whose digit separators are no character literals.
  void Number() {
    while (at_ < in_.size() &&
           (IsWord(in_[at_]) || in_[at_] == '.' ||
            (in_[at_] == '\'' && at_ + 1 < in_.size() && IsWord(in_[at_ + 1])))) {
      ++at_;
    }
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0;
};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// The identifier at `at`, which must not continue an earlier one.
std::string_view WordAt(std::string_view code, std::size_t at) {
  std::size_t end = at;
  while (end < code.size() && IsWord(code[end])) ++end;
  return code.substr(at, end - at);
}

// Calls `visit(word, position)` for each identifier or number.
template <class Visit>
void ForEachWord(std::string_view code, Visit visit) {
  for (std::size_t at = 0; at < code.size();) {
    if (!IsWord(code[at])) {
      ++at;
      continue;
    }
    const std::string_view word = WordAt(code, at);
    visit(word, at);
    at += word.size();
  }
}

// Whether position `at` lies in a function body, judged by what stands before each open brace:
// braces of namespaces and linkage specifications do not count.
bool InsideFunction(std::string_view code, std::size_t at) {
  std::vector<bool> counts;
  std::size_t head = 0;  // Behind the last ; { or }.
  for (std::size_t i = 0; i < at; ++i) {
    if (code[i] == '{') {
      bool is_namespace = false, is_extern = false;
      ForEachWord(code.substr(head, i - head), [&](std::string_view word, std::size_t) {
        is_namespace |= word == "namespace";
        is_extern |= word == "extern";
      });
      const bool has_parameters = code.substr(head, i - head).find('(') != std::string_view::npos;
      counts.push_back(!(is_namespace || (is_extern && !has_parameters)));
    } else if (code[i] == '}' && !counts.empty()) {
      counts.pop_back();
    }
    if (code[i] == ';' || code[i] == '{' || code[i] == '}') head = i + 1;
  }
  return std::find(counts.begin(), counts.end(), true) != counts.end();
}

// Removes __align__(...), alignas(...) and __attribute__((...)) from a declaration.
std::string WithoutAttributes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view word = IsWord(text[at]) ? WordAt(text, at) : std::string_view();
    if (word == "__align__" || word == "alignas" || word == "__attribute__") {
      std::size_t i = text.find('(', at);
      int depth = 0;
      for (; i < text.size(); ++i) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0) break;
      }
      at = std::min(i + 1, text.size());
      continue;
    }
    const std::size_t step = word.empty() ? 1 : word.size();
    out.append(text.substr(at, step));
    at += step;
  }
  return out;
}

// The macro call for the declaration between `__shared__` and `;`, or nothing when it is none of an
// array without a size.
std::string DynamicSharedMacro(std::string_view declaration, bool local) {
  const std::string plain = WithoutAttributes(declaration);
  const std::size_t open = plain.find('[');
  if (open == std::string::npos || plain.find_first_of("=(){}") != std::string::npos) return {};
  const std::size_t close = plain.find(']', open);
  if (close == std::string::npos || !Trim(plain.substr(open + 1, close - open - 1)).empty()) {
    return {};
  }
  std::size_t end = open;
  while (end > 0 && IsSpace(plain[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && IsWord(plain[begin - 1])) --begin;
  const std::string name = plain.substr(begin, end - begin);
  std::string type(Trim(std::string_view(plain).substr(0, begin)));
  std::replace(type.begin(), type.end(), '\n', ' ');
  std::string inner(Trim(std::string_view(plain).substr(close + 1)));
  std::replace(inner.begin(), inner.end(), '\n', ' ');
  if (name.empty() || type.empty() || name.find(',') != std::string::npos) return {};
  if (!inner.empty()) type = fmt::format("std::remove_pointer_t<{}(*){}>", type, inner);
  return fmt::format("FETTLE_DYNAMIC_SHARED_{}({}, {});", local ? "LOCAL" : "GLOBAL", name, type);
}

bool IsWait(std::string_view word) {
  static constexpr std::array<std::string_view, 9> kPrefixes = {
      "__sync",   "__shfl",    "__ballot",          "__any", "__all", "__activemask",
      "__match_", "__reduce_", "cooperative_groups"};
  static constexpr std::array<std::string_view, 5> kAmd = {
      "__builtin_amdgcn_s_barrier", "__builtin_amdgcn_readfirstlane", "__builtin_amdgcn_readlane",
      "__builtin_amdgcn_ds_bpermute", "__builtin_amdgcn_wave_barrier"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [word](std::string_view prefix) { return word.starts_with(prefix); }) ||
         std::find(kAmd.begin(), kAmd.end(), word) != kAmd.end();
}

std::string IncludeProblem(std::string_view argument) {
  if (argument.empty() || (argument[0] != '"' && argument[0] != '<')) {
    return "an include whose name comes from a macro is not allowed; write the header's name";
  }
  const char close = argument[0] == '<' ? '>' : '"';
  const std::string_view path = argument.substr(1, argument.find(close, 1) - 1);
  if (path.starts_with('/')) {
    return fmt::format("include of the absolute path {} is not allowed", std::string(path));
  }
  if (path == ".." || path.starts_with("../") || path.find("/../") != std::string_view::npos) {
    return fmt::format("include of {}, through a parent folder, is not allowed", std::string(path));
  }
  return {};
}

}  // namespace

std::string BlankNonCode(std::string_view source) { return Blanker(source).Run(); }

std::vector<Directive> FindDirectives(std::string_view source) {
  const std::string code = BlankNonCode(source);
  std::vector<Directive> directives;
  int line = 1;
  for (std::size_t at = 0; at < code.size();) {
    const int first_line = line;
    std::string joined, text;  // Of the blanked and of the original line.
    for (; at < code.size(); ++at) {
      if (code[at] == '\n') {
        ++line;
        const bool spliced = !joined.empty() && joined.back() == '\\';
        if (!spliced) break;
        joined.pop_back();
        text.pop_back();
        continue;
      }
      if (code[at] == '\r') continue;
      joined.push_back(code[at]);
      text.push_back(source[at]);
    }
    ++at;
    std::size_t begin = 0;
    while (begin < joined.size() && IsSpace(joined[begin])) ++begin;
    const std::string_view rest = std::string_view(joined).substr(begin);
    const std::size_t mark = rest.starts_with('#') ? 1 : rest.starts_with("%:") ? 2 : 0;
    if (mark == 0) continue;
    begin += mark;
    while (begin < joined.size() && IsSpace(joined[begin])) ++begin;
    const std::string name(WordAt(joined, begin));
    directives.push_back(
        {first_line, name, std::string(Trim(std::string_view(text).substr(begin + name.size())))});
  }
  return directives;
}

std::vector<Diagnostic> FindFileAccess(std::string_view source, const std::string& name) {
  std::vector<Diagnostic> found;
  const auto report = [&](const Directive& directive, std::string text) {
    found.push_back({name, directive.line, 1, "error", std::move(text)});
  };
  for (const Directive& directive : FindDirectives(source)) {
    if (directive.name == "include" || directive.name == "include_next" ||
        directive.name == "import") {
      std::string problem = IncludeProblem(directive.argument);
      if (!problem.empty()) report(directive, std::move(problem));
    } else if (directive.name == "embed") {
      report(directive, "#embed is not allowed: kernels read no files");
    } else if (directive.name == "pragma" &&
               (directive.argument.find("dependency") != std::string::npos ||
                directive.argument.find("pch_preprocess") != std::string::npos)) {
      report(directive, "a pragma that reads a file is not allowed");
    }
  }
  return found;
}

std::string RewriteDynamicShared(std::string_view source) {
  const std::string code = BlankNonCode(source);
  std::string out;
  std::size_t copied = 0;
  ForEachWord(code, [&](std::string_view word, std::size_t at) {
    if (at < copied || (word != "extern" && word != "__shared__")) return;
    std::size_t next = at + word.size();
    while (next < code.size() && IsSpace(code[next])) ++next;
    const std::string_view second = next < code.size() ? WordAt(code, next) : std::string_view();
    if (second != (word == "extern" ? "__shared__" : "extern")) return;
    const std::size_t begin = next + second.size();
    const std::size_t end = code.find(';', begin);
    if (end == std::string::npos) return;
    // The original text may hold comments; the blanked one does not.
    const std::string macro = DynamicSharedMacro(std::string_view(code).substr(begin, end - begin),
                                                 InsideFunction(code, at));
    if (macro.empty()) return;
    out.append(source.substr(copied, at - copied)).append(macro);
    out.append(
        static_cast<std::size_t>(std::count(code.begin() + static_cast<std::ptrdiff_t>(at),
                                            code.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
        '\n');
    copied = end + 1;
  });
  out.append(source.substr(copied));
  return out;
}

bool NamesWait(std::string_view source) {
  bool found = false;
  ForEachWord(BlankNonCode(source),
              [&found](std::string_view word, std::size_t) { found = found || IsWait(word); });
  return found;
}

}  // namespace fettle
