// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fettle {

// A preprocessing token of C++ source. Comments are gone, line splices joined, digraphs spelled as
// what they stand for.
struct PolicyToken {
  enum class Kind { kIdentifier, kNumber, kString, kChar, kPunctuator };
  Kind kind = Kind::kPunctuator;
  std::string text;         // As written; strings with quotes and prefix.
  int line = 0;             // From 1.
  bool line_start = false;  // First on its line.
  bool space_before = false;

  bool Is(std::string_view other) const { return text == other; }
};

std::vector<PolicyToken> TokenizePolicy(std::string_view source);

// A directive with its tokens, and everything else with macros of the source expanded. Conditions
// are not evaluated: every branch counts, and a macro defined several times expands to each of its
// definitions.
struct PolicyDirective {
  std::string name;                 // "include", "define", "pragma"; "" for a lone #.
  std::vector<PolicyToken> tokens;  // After the name.
  int line = 0;
};
struct PolicySource {
  std::vector<PolicyDirective> directives;
  std::vector<PolicyToken> tokens;  // Expanded.
  bool expansion_cut = false;       // Expansion passed its limit and was cut short.
};
PolicySource ExpandPolicy(std::string_view source);

}  // namespace fettle
