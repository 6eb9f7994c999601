// SPDX-License-Identifier: Apache-2.0
#include "verifier/policy_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace fettle {
namespace {

using Kind = PolicyToken::Kind;
using Tokens = std::vector<PolicyToken>;

constexpr std::size_t kMaxTokens = 300'000;  // After expansion.
constexpr int kMaxDepth = 64;

// The source with line splices removed, and the line of every character. Raw strings keep their
// splices, which the tokenizer never looks into.
struct Spliced {
  std::string text;
  std::vector<int> lines;
};

Spliced Splice(std::string_view source) {
  Spliced out;
  int line = 1;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      // Compilers also take blanks between the backslash and the end of the line.
      std::size_t end = i + 1;
      while (end < source.size() &&
             (source[end] == ' ' || source[end] == '\t' || source[end] == '\r')) {
        ++end;
      }
      if (end < source.size() && source[end] == '\n') {
        ++line;
        i = end;
        continue;
      }
    }
    out.text.push_back(source[i]);
    out.lines.push_back(line);
    if (source[i] == '\n') ++line;
  }
  return out;
}

bool IsIdentifierStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsIdentifierPart(char c) {
  return IsIdentifierStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view source) : in_(Splice(source)), text_(in_.text) {}
  Tokens Run();

 private:
  char At(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool SkipBlank();
  std::size_t StringEnd(std::size_t quote) const;
  std::size_t RawStringEnd(std::size_t quote) const;
  std::optional<std::size_t> LiteralEnd(std::size_t start) const;
  void Push(Kind kind, std::size_t end, std::string spelled = "");

  Spliced in_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool line_start_ = true, space_ = false;
  Tokens tokens_;
};

// Skips one blank or comment.
bool Tokenizer::SkipBlank() {
  const char c = At(at_);
  if (c == '\n') {
    line_start_ = true;
    ++at_;
    return true;
  }
  if (std::isspace(static_cast<unsigned char>(c)) != 0) {
    space_ = true;
    ++at_;
    return true;
  }
  if (c == '/' && At(at_ + 1) == '/') {
    at_ = std::min(text_.find('\n', at_), text_.size());
    space_ = true;
    return true;
  }
  if (c == '/' && At(at_ + 1) == '*') {
    const std::size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    space_ = true;
    return true;
  }
  return false;
}

std::size_t Tokenizer::StringEnd(std::size_t quote) const {
  const char delimiter = text_[quote];
  for (std::size_t i = quote + 1; i < text_.size(); ++i) {
    if (text_[i] == '\\') {
      ++i;
    } else if (text_[i] == delimiter) {
      return i + 1;
    } else if (text_[i] == '\n') {
      return i;
    }
  }
  return text_.size();
}

std::size_t Tokenizer::RawStringEnd(std::size_t quote) const {
  const std::size_t open = text_.find('(', quote);
  if (open == std::string_view::npos) return text_.size();
  const std::string close = ")" + std::string(text_.substr(quote + 1, open - quote - 1)) + "\"";
  const std::size_t end = text_.find(close, open);
  return end == std::string_view::npos ? text_.size() : end + close.size();
}

// The end of a string or character literal at `start`, prefix and suffix included.
std::optional<std::size_t> Tokenizer::LiteralEnd(std::size_t start) const {
  for (const std::string_view prefix : {"u8R", "uR", "UR", "LR", "R", "u8", "u", "U", "L", ""}) {
    if (text_.substr(start, prefix.size()) != prefix) continue;
    const char quote = At(start + prefix.size());
    const bool raw = prefix.ends_with('R');
    if (quote == '"') {
      return raw ? RawStringEnd(start + prefix.size()) : StringEnd(start + prefix.size());
    }
    if (quote == '\'' && !raw) return StringEnd(start + prefix.size());
  }
  return std::nullopt;
}

void Tokenizer::Push(Kind kind, std::size_t end, std::string spelled) {
  PolicyToken token;
  token.kind = kind;
  token.text = spelled.empty() ? std::string(text_.substr(at_, end - at_)) : std::move(spelled);
  token.line = in_.lines[at_];
  token.line_start = line_start_;
  token.space_before = space_;
  tokens_.push_back(std::move(token));
  at_ = end;
  line_start_ = space_ = false;
}

Tokens Tokenizer::Run() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kDigraphs = {
      {{"%:%:", "##"}, {"%:", "#"}, {"<%", "{"}, {"%>", "}"}, {"<:", "["}, {":>", "]"}}};
  static constexpr std::array<std::string_view, 9> kLong = {
      "<<<", ">>>", "...", "##", "::", "->", "<<", ">>", "=="};
  while (at_ < text_.size()) {
    if (SkipBlank()) continue;
    const char c = At(at_);
    if (const auto end = LiteralEnd(at_)) {
      const bool character = text_.substr(at_, *end - at_).find('"') == std::string_view::npos;
      Push(character ? Kind::kChar : Kind::kString, *end);
      continue;
    }
    if (IsIdentifierStart(c)) {
      std::size_t end = at_;
      while (end < text_.size() && IsIdentifierPart(text_[end])) ++end;
      Push(Kind::kIdentifier, end);
      continue;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
        (c == '.' && std::isdigit(static_cast<unsigned char>(At(at_ + 1))) != 0)) {
      std::size_t end = at_ + 1;
      while (end < text_.size()) {
        const char before = text_[end - 1];
        const bool exponent = before == 'e' || before == 'E' || before == 'p' || before == 'P';
        const bool separator = text_[end] == '\'' && IsIdentifierPart(At(end + 1));
        if (!IsIdentifierPart(text_[end]) && text_[end] != '.' && !separator &&
            !(exponent && (text_[end] == '+' || text_[end] == '-'))) {
          break;
        }
        ++end;
      }
      Push(Kind::kNumber, end);
      continue;
    }
    const std::string_view rest = text_.substr(at_);
    const auto digraph = std::find_if(kDigraphs.begin(), kDigraphs.end(), [rest](const auto& one) {
      return rest.starts_with(one.first);
    });
    if (digraph != kDigraphs.end()) {
      Push(Kind::kPunctuator, at_ + digraph->first.size(), std::string(digraph->second));
      continue;
    }
    const auto found = std::find_if(kLong.begin(), kLong.end(),
                                    [rest](std::string_view one) { return rest.starts_with(one); });
    Push(Kind::kPunctuator, at_ + (found != kLong.end() ? found->size() : 1));
  }
  return std::move(tokens_);
}

void Append(Tokens more, Tokens* to) {
  to->insert(to->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

struct Macro {
  bool function = false, variadic = false;
  std::vector<std::string> parameters;
  Tokens body;
};

// Expands macros for reading, not for compiling: see PolicySource.
class Expander {
 public:
  PolicySource Run(Tokens tokens);

 private:
  void Directive(const Tokens& tokens, std::size_t* at, PolicySource* out);
  void Define(const Tokens& line);
  Tokens Expand(const Tokens& tokens, const std::set<std::string>& hidden, int depth);
  void Rescan(const Tokens& tokens, std::size_t* at, const std::set<std::string>& hidden, int depth,
              Tokens* out);
  std::optional<std::vector<Tokens>> Arguments(const Tokens& tokens, std::size_t* at) const;
  Tokens Substitute(const Macro& macro, const std::vector<Tokens>& arguments,
                    const std::set<std::string>& hidden, int depth);

  std::map<std::string, std::vector<Macro>> macros_;
  std::size_t produced_ = 0;
  bool cut_ = false;
};

void Expander::Define(const Tokens& line) {
  if (line.empty() || line[0].kind != Kind::kIdentifier) return;
  Macro macro;
  std::size_t at = 1;
  if (at < line.size() && line[at].Is("(") && !line[at].space_before) {
    macro.function = true;
    for (++at; at < line.size() && !line[at].Is(")"); ++at) {
      if (line[at].Is("...")) {
        macro.variadic = true;
        if (macro.parameters.empty() || line[at - 1].Is(","))
          macro.parameters.emplace_back("__VA_ARGS__");
      } else if (line[at].kind == Kind::kIdentifier) {
        macro.parameters.push_back(line[at].text);
      }
    }
    ++at;
  }
  if (at < line.size())
    macro.body.assign(line.begin() + static_cast<std::ptrdiff_t>(at), line.end());
  macros_[line[0].text].push_back(std::move(macro));
}

void Expander::Directive(const Tokens& tokens, std::size_t* at, PolicySource* out) {
  PolicyDirective directive;
  directive.line = tokens[*at].line;
  std::size_t i = *at + 1;
  if (i < tokens.size() && !tokens[i].line_start) directive.name = tokens[i++].text;
  while (i < tokens.size() && !tokens[i].line_start) directive.tokens.push_back(tokens[i++]);
  *at = i;
  if (directive.name == "define") Define(directive.tokens);
  out->directives.push_back(std::move(directive));
}

PolicySource Expander::Run(Tokens tokens) {
  PolicySource out;
  // All definitions first: every branch and order counts.
  Tokens code;
  for (std::size_t at = 0; at < tokens.size();) {
    if (tokens[at].line_start && tokens[at].Is("#")) {
      Directive(tokens, &at, &out);
    } else {
      code.push_back(tokens[at++]);
    }
  }
  out.tokens = Expand(code, {}, 0);
  out.expansion_cut = cut_;
  return out;
}

// The arguments of a call whose "(" is at `*at`; moves past ")". Nothing when it does not end.
std::optional<std::vector<Tokens>> Expander::Arguments(const Tokens& tokens,
                                                       std::size_t* at) const {
  std::vector<Tokens> arguments(1);
  int depth = 0;
  for (std::size_t i = *at; i < tokens.size(); ++i) {
    const PolicyToken& token = tokens[i];
    if (token.Is("(") && depth++ == 0) continue;
    if (token.Is(")") && --depth == 0) {
      *at = i + 1;
      return arguments;
    }
    if (token.Is(",") && depth == 1) {
      arguments.emplace_back();
    } else {
      arguments.back().push_back(token);
    }
  }
  return std::nullopt;
}

Tokens Expander::Substitute(const Macro& macro, const std::vector<Tokens>& arguments,
                            const std::set<std::string>& hidden, int depth) {
  const auto argument_of = [&](const PolicyToken& token) -> std::optional<Tokens> {
    const auto found = std::find(macro.parameters.begin(), macro.parameters.end(), token.text);
    if (token.kind != Kind::kIdentifier || found == macro.parameters.end()) return std::nullopt;
    const auto index = static_cast<std::size_t>(found - macro.parameters.begin());
    if (macro.variadic && index + 1 == macro.parameters.size()) {
      Tokens rest;
      for (std::size_t i = index; i < arguments.size(); ++i) {
        rest.insert(rest.end(), arguments[i].begin(), arguments[i].end());
      }
      return rest;
    }
    return index < arguments.size() ? arguments[index] : Tokens();
  };
  Tokens out;
  for (std::size_t i = 0; i < macro.body.size() && !cut_; ++i) {
    const PolicyToken& token = macro.body[i];
    if (token.Is("##") && i + 1 < macro.body.size()) {
      const PolicyToken& next = macro.body[++i];
      Tokens right = argument_of(next).value_or(Tokens{next});
      if (!out.empty() && !right.empty()) {
        // The pasted token is read anew, since it may be of another kind.
        Tokens pasted = Tokenizer(out.back().text + right.front().text).Run();
        for (PolicyToken& one : pasted) {
          one.line = out.back().line;
          one.line_start = false;
        }
        out.pop_back();
        out.insert(out.end(), pasted.begin(), pasted.end());
        right.erase(right.begin());
      }
      out.insert(out.end(), right.begin(), right.end());
      continue;
    }
    const bool pastes = i + 1 < macro.body.size() && macro.body[i + 1].Is("##");
    if (auto argument = argument_of(token)) {
      Append(pastes ? *std::move(argument) : Expand(*argument, hidden, depth + 1), &out);
    } else {
      out.push_back(token);
    }
    if (out.size() > kMaxTokens) cut_ = true;
  }
  return out;
}

// A macro may end in the name of another one whose arguments follow it in the source.
void Expander::Rescan(const Tokens& tokens, std::size_t* at, const std::set<std::string>& hidden,
                      int depth, Tokens* out) {
  for (int round = 0; round < kMaxDepth && !out->empty() && *at < tokens.size(); ++round) {
    const auto found = macros_.find(out->back().text);
    if (found == macros_.end() || hidden.contains(out->back().text) || !tokens[*at].Is("(") ||
        std::none_of(found->second.begin(), found->second.end(),
                     [](const Macro& macro) { return macro.function; })) {
      return;
    }
    std::size_t end = *at;
    if (!Arguments(tokens, &end)) return;
    Tokens call = {out->back()};
    call.insert(call.end(), tokens.begin() + static_cast<std::ptrdiff_t>(*at),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
    out->pop_back();
    const Tokens expanded = Expand(call, hidden, depth + 1);
    out->insert(out->end(), expanded.begin(), expanded.end());
    *at = end;
  }
}

Tokens Expander::Expand(const Tokens& tokens, const std::set<std::string>& hidden, int depth) {
  Tokens out;
  for (std::size_t i = 0; i < tokens.size() && !cut_;) {
    const PolicyToken& token = tokens[i];
    const auto found = macros_.find(token.text);
    if (token.kind != Kind::kIdentifier || found == macros_.end() || hidden.contains(token.text)) {
      out.push_back(token);
      cut_ |= ++produced_ > kMaxTokens;
      ++i;
      continue;
    }
    if (depth > kMaxDepth) {
      cut_ = true;
      break;
    }
    std::set<std::string> inner = hidden;
    inner.insert(token.text);
    std::size_t next = i + 1;
    bool used = false;
    for (const Macro& macro : found->second) {
      std::size_t end = i + 1;
      std::vector<Tokens> arguments;
      if (macro.function) {
        if (end >= tokens.size() || !tokens[end].Is("(")) continue;
        auto given = Arguments(tokens, &end);
        if (!given) continue;
        arguments = *std::move(given);
      }
      Tokens body = Substitute(macro, arguments, hidden, depth);
      for (PolicyToken& one : body) one.line = token.line;
      Append(Expand(body, inner, depth + 1), &out);
      next = std::max(next, end);
      used = true;
    }
    if (!used) out.push_back(token);
    i = next;
    if (used) Rescan(tokens, &i, hidden, depth, &out);
  }
  return out;
}

}  // namespace

std::vector<PolicyToken> TokenizePolicy(std::string_view source) { return Tokenizer(source).Run(); }

PolicySource ExpandPolicy(std::string_view source) {
  return Expander().Run(TokenizePolicy(source));
}

}  // namespace fettle
