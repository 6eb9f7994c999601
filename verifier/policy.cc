// SPDX-License-Identifier: Apache-2.0
#include "verifier/policy.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "verifier/policy_lists.h"
#include "verifier/policy_tokens.h"

namespace fettle {
namespace {

using Kind = PolicyToken::Kind;
using Tokens = std::vector<PolicyToken>;
using Finding = std::optional<VerdictRecord>;

bool IsKeywordBeforeCall(const PolicyToken& token) {
  static const std::set<std::string_view> kWords = {
      "return", "else", "do", "case", "co_return", "throw", "sizeof", "typeof", "and", "or", "not"};
  return kWords.contains(token.text);
}

// Whether a declared name may follow: the last token of a type.
bool IsTypeEnd(const PolicyToken& token) {
  return token.Is(">") || (token.kind == Kind::kIdentifier && !IsKeywordBeforeCall(token));
}

std::string Unquote(const std::string& text) {
  const std::size_t open = text.find('"'), close = text.rfind('"');
  return open == std::string::npos || close <= open ? text
                                                    : text.substr(open + 1, close - open - 1);
}

// Looks through one file.
class Inspector {
 public:
  Inspector(const std::string& name, const std::vector<std::string>& own_headers,
            const PolicyRules& rules)
      : name_(name), own_headers_(own_headers), rules_(rules) {}

  Finding Inspect(const std::string& source);

 private:
  Finding Refuse(const std::string& code, int line, const std::string& what) const;
  Finding CheckDirective(const PolicyDirective& directive) const;
  Finding CheckInclude(const Tokens& tokens, int line) const;
  Finding CheckIncludeName(const std::string& name, int line) const;
  Finding CheckPragma(const Tokens& tokens, int line) const;
  Finding CheckToken(std::size_t i) const;
  Finding CheckAttributes() const;
  Finding CheckLinkage() const;
  Finding CheckHostCall(std::size_t i) const;
  // Whether the source itself declares `name` as a variable, or defines it as a device function.
  bool Declares(const std::string& name) const;
  // Whether the source has a function of that name with a body.
  bool Defines(const std::string& name) const;
  std::size_t Closing(std::size_t open) const;

  const std::string& name_;
  const std::vector<std::string>& own_headers_;
  const PolicyRules& rules_;
  Tokens tokens_;
};

Finding Inspector::Refuse(const std::string& code, int line, const std::string& what) const {
  VerdictRecord record;
  record.verdict = Verdict::kRefused;
  record.stage = Stage::kPolicy;
  record.reason_code = code;
  record.message = fmt::format("{}:{}: {}", name_, line, what);
  record.evidence = {{"file", name_}, {"line", line}};
  return record;
}

Finding Inspector::CheckIncludeName(const std::string& name, int line) const {
  const auto among = [&name](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (among(own_headers_) || among(rules_.allowed_includes) || IsAllowedInclude(name)) {
    return std::nullopt;
  }
  return Refuse(
      "policy_include", line,
      fmt::format("include of '{}' is not allowed; allowed are the CUDA and HIP device headers, "
                  "freestanding C++ headers and the kernel's own files",
                  name));
}

// The name in `tokens`: "x" or <x>; anything else is computed.
Finding Inspector::CheckInclude(const Tokens& tokens, int line) const {
  if (!tokens.empty() && tokens[0].kind == Kind::kString) {
    return CheckIncludeName(Unquote(tokens[0].text), line);
  }
  if (!tokens.empty() && tokens[0].Is("<")) {
    std::string name;
    for (std::size_t i = 1; i < tokens.size() && !tokens[i].Is(">"); ++i) name += tokens[i].text;
    return CheckIncludeName(name, line);
  }
  return Refuse("policy_include", line,
                "an include whose name comes from a macro is not allowed; write the name");
}

Finding Inspector::CheckPragma(const Tokens& tokens, int line) const {
  const std::string first = tokens.empty() ? "" : tokens[0].text;
  const std::string second = tokens.size() < 2 ? "" : tokens[1].text;
  if (IsAllowedPragma(first, second)) return std::nullopt;
  return Refuse(
      "policy_pragma", line,
      fmt::format("#pragma {} {} is not allowed; use unroll, once, GCC ivdep, clang loop or "
                  "diagnostic pragmas",
                  first, second));
}

Finding Inspector::CheckDirective(const PolicyDirective& directive) const {
  const Tokens& tokens = directive.tokens;
  if (directive.name == "include") return CheckInclude(tokens, directive.line);
  if (directive.name == "include_next" || directive.name == "import" || directive.name == "embed") {
    return Refuse("policy_include", directive.line,
                  fmt::format("#{} is not allowed: kernels read no files", directive.name));
  }
  if (directive.name == "pragma") return CheckPragma(tokens, directive.line);
  if (!IsStandardDirective(directive.name)) {
    return Refuse("policy_directive", directive.line,
                  fmt::format("#{} is not allowed", directive.name));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == "__has_embed" || text == "__has_include_next") {
      return Refuse("policy_include", directive.line, text + " is not allowed");
    }
    if (text != "__has_include" || i + 1 >= tokens.size() || !tokens[i + 1].Is("(")) continue;
    const Tokens inside(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 2, tokens.end());
    if (Finding found = CheckInclude(inside, directive.line)) return found;
  }
  return std::nullopt;
}

// The token that closes the bracket at `open`; the end when there is none.
std::size_t Inspector::Closing(std::size_t open) const {
  int depth = 0;
  for (std::size_t i = open; i < tokens_.size(); ++i) {
    const std::string& text = tokens_[i].text;
    if (tokens_[i].kind != Kind::kPunctuator) continue;
    if (text == "(" || text == "[" || text == "{") ++depth;
    if ((text == ")" || text == "]" || text == "}") && --depth == 0) return i;
  }
  return tokens_.size();
}

Finding Inspector::CheckAttributes() const {
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    const bool gnu = tokens_[i].Is("__attribute__") || tokens_[i].Is("__attribute") ||
                     tokens_[i].Is("__declspec");
    const bool standard = tokens_[i].Is("[") && tokens_[i + 1].Is("[");
    if (!gnu && !standard) continue;
    const std::size_t end = Closing(gnu ? i + 1 : i);
    for (std::size_t k = i + 1; k < end; ++k) {
      if (tokens_[k].kind == Kind::kIdentifier && IsBannedAttribute(tokens_[k].text)) {
        return Refuse("policy_attribute", tokens_[k].line,
                      fmt::format("attribute '{}' is not allowed", tokens_[k].text));
      }
    }
  }
  return std::nullopt;
}

// extern "C" functions that are no device code: declarations of the host's own functions.
Finding Inspector::CheckLinkage() const {
  for (std::size_t i = 0; i + 2 < tokens_.size(); ++i) {
    if (!tokens_[i].Is("extern") || tokens_[i + 1].kind != Kind::kString) continue;
    const bool block = tokens_[i + 2].Is("{");
    const std::size_t last = block ? Closing(i + 2) : tokens_.size();
    bool device = false, type = false, call = false;
    std::string name;  // Of the function, once its parameters were seen.
    int line = tokens_[i].line;
    for (std::size_t k = block ? i + 3 : i + 2; k < last; ++k) {
      const PolicyToken& token = tokens_[k];
      device |= token.Is("__global__") || token.Is("__device__") || token.Is("__shared__") ||
                token.Is("__constant__");
      type |= token.Is("typedef") || token.Is("using") || token.Is("struct") || token.Is("enum") ||
              token.Is("union");
      if (token.Is("(")) {
        call = true;
        if (tokens_[k - 1].kind == Kind::kIdentifier) name = tokens_[k - 1].text;
        k = Closing(k);
        continue;
      }
      if (!token.Is(";") && !token.Is("{")) continue;
      if (call && device && !type && token.Is(";") && !Defines(name)) {
        return Refuse(
            "policy_host_code", line,
            fmt::format("'{}' is declared with extern \"C\" and not defined in this source; "
                        "kernels are linked with nothing else",
                        name));
      }
      if (call && !device && !type) {
        return Refuse("policy_host_code", line,
                      "an extern \"C\" function that is neither __global__ nor __device__ is host "
                      "code; only device code is taken");
      }
      if (token.Is("{")) k = Closing(k);
      if (!block) break;
      device = type = call = false;
      if (k + 1 < last) line = tokens_[k + 1].line;
    }
  }
  return std::nullopt;
}

bool Inspector::Declares(const std::string& name) const {
  for (std::size_t i = 1; i + 1 < tokens_.size(); ++i) {
    if (!tokens_[i].Is(name)) continue;
    const PolicyToken& before = tokens_[i - 1];
    const PolicyToken& after = tokens_[i + 1];
    if (before.Is(".") || before.Is("->") || before.Is("::")) continue;
    if (after.Is("=")) return true;  // Only a variable can be set.
    if (before.Is(",") && (after.Is(";") || after.Is("["))) return true;  // A further declarator.
    const bool pointer = (before.Is("*") || before.Is("&")) && i >= 2 && IsTypeEnd(tokens_[i - 2]);
    if (!IsTypeEnd(before) && !pointer) continue;
    if (after.Is(";") || after.Is(",") || after.Is("[") || after.Is(")") || after.Is("{") ||
        after.Is(":")) {
      return true;
    }
    if (!after.Is("(")) continue;
    // A function: device code says so before its name, and has a body.
    const std::size_t end = Closing(i + 1);
    std::size_t body = end + 1;
    while (body < tokens_.size() && (tokens_[body].Is("const") || tokens_[body].Is("noexcept")))
      ++body;
    if (body >= tokens_.size() || !tokens_[body].Is("{")) continue;
    for (std::size_t k = i; k-- > 0 && i - k < 24;) {
      if (tokens_[k].Is(";") || tokens_[k].Is("}")) break;
      if (tokens_[k].Is("__device__") || tokens_[k].Is("constexpr") || tokens_[k].Is("{"))
        return true;
    }
  }
  return false;
}

bool Inspector::Defines(const std::string& name) const {
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (!tokens_[i].Is(name) || !tokens_[i + 1].Is("(")) continue;
    std::size_t body = Closing(i + 1) + 1;
    while (body < tokens_.size() && (tokens_[body].Is("const") || tokens_[body].Is("noexcept"))) {
      ++body;
    }
    if (body < tokens_.size() && tokens_[body].Is("{")) return true;
  }
  return false;
}

Finding Inspector::CheckHostCall(std::size_t i) const {
  const PolicyToken& token = tokens_[i];
  const PolicyToken* before = i > 0 ? &tokens_[i - 1] : nullptr;
  if (before != nullptr && (before->Is(".") || before->Is("->"))) return std::nullopt;
  if (before != nullptr && before->Is("::") && i >= 2 && tokens_[i - 2].kind == Kind::kIdentifier &&
      !tokens_[i - 2].Is("std") && !IsKeywordBeforeCall(tokens_[i - 2])) {
    return std::nullopt;  // A member of something of the source's own.
  }
  const bool called = i + 1 < tokens_.size() && tokens_[i + 1].Is("(");
  const bool taken =
      before != nullptr && (before->Is("=") || before->Is("&") || before->Is("(") ||
                            before->Is(",") || before->Is("::") || before->Is("return"));
  if ((!called && !taken) || Declares(token.text)) return std::nullopt;
  return Refuse("policy_host_call", token.line,
                fmt::format("'{}' is a function of the host; kernels may not call it (a __device__ "
                            "function of that name would be fine)",
                            token.text));
}

Finding Inspector::CheckToken(std::size_t i) const {
  const PolicyToken& token = tokens_[i];
  if (token.Is("<<<") || token.Is(">>>")) {
    // Closing template lists may end in >>>; a launch has a "(" behind it and "<<<" before.
    if (token.Is("<<<")) {
      return Refuse("policy_host_code", token.line,
                    "a kernel launch is host code; describe launches in the plan");
    }
    return std::nullopt;
  }
  if (token.kind != Kind::kIdentifier) return std::nullopt;
  if (token.Is("asm") || token.Is("__asm") || token.Is("__asm__")) {
    if (rules_.allow_asm) return std::nullopt;
    return Refuse("policy_asm", token.line, "inline assembly is not allowed in this task");
  }
  if ((token.Is("_Pragma") || token.Is("__pragma")) && i + 2 < tokens_.size()) {
    const PolicyToken& text = tokens_[i + 2];
    const std::string pragma = text.kind == Kind::kString ? Unquote(text.text) : text.text;
    return CheckPragma(TokenizePolicy(pragma), token.line);
  }
  if (IsBannedBuiltin(token.text)) {
    return Refuse("policy_builtin", token.line, fmt::format("'{}' is not allowed", token.text));
  }
  // What the cpu target's runtime and the process around it are made of.
  const bool ours = token.text.starts_with("fettle_rt_") || token.text.starts_with("fettle_cpu_") ||
                    (token.Is("fettle") && i > 0 && tokens_[i - 1].Is("namespace"));
  if (ours) {
    return Refuse("policy_builtin", token.line,
                  fmt::format("'{}' is reserved for fettle itself", token.text));
  }
  const bool call = i + 1 < tokens_.size() && tokens_[i + 1].Is("(");
  if (token.Is("main") && call && i > 0 && tokens_[i - 1].Is("int")) {
    return Refuse("policy_host_code", token.line, "main is host code; only device code is taken");
  }
  if (IsHostFunction(token.text)) return CheckHostCall(i);
  return std::nullopt;
}

Finding Inspector::Inspect(const std::string& source) {
  PolicySource expanded = ExpandPolicy(source);
  for (const PolicyDirective& directive : expanded.directives) {
    if (Finding found = CheckDirective(directive)) return found;
  }
  if (expanded.expansion_cut) {
    return Refuse("policy_too_long", 1,
                  "the source has more than 300,000 tokens once its macros are expanded");
  }
  tokens_ = std::move(expanded.tokens);
  if (Finding found = CheckAttributes()) return found;
  if (Finding found = CheckLinkage()) return found;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (Finding found = CheckToken(i)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<VerdictRecord> CheckSourcePolicy(const std::string& name, const std::string& source,
                                               const std::vector<std::string>& own_headers,
                                               const PolicyRules& rules) {
  return Inspector(name, own_headers, rules).Inspect(source);
}

std::optional<VerdictRecord> CheckPolicy(const KernelSpec& kernel, const PolicyRules& rules) {
  for (const std::string& option : rules.options) {
    const auto& extra = rules.allowed_options;
    if (IsAllowedOption(option, rules.vendor) ||
        std::find(extra.begin(), extra.end(), option) != extra.end()) {
      continue;
    }
    VerdictRecord record;
    record.verdict = Verdict::kRefused;
    record.stage = Stage::kPolicy;
    record.reason_code = "policy_option";
    record.message =
        fmt::format("compiler option '{}' is not on the allow-list of this target", option);
    record.evidence = {{"option", option}};
    return record;
  }
  std::vector<std::string> own;
  for (const auto& [name, text] : kernel.headers) own.push_back(name);
  if (auto found = CheckSourcePolicy(kernel.source_name, kernel.source, own, rules)) return found;
  for (const auto& [name, text] : kernel.headers) {
    if (auto found = CheckSourcePolicy(name, text, own, rules)) return found;
  }
  return std::nullopt;
}

}  // namespace fettle
