// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernel_compiler.h"

namespace fettle {

// The source with everything that is not code turned to spaces: comments and the contents of string
// and character literals (raw ones too). Of the same length, line breaks kept, so that positions
// carry over.
std::string BlankNonCode(std::string_view source);

// One preprocessor directive, its line splices joined.
struct Directive {
  int line = 0;
  std::string name;      // "include", "define", "pragma", ...
  std::string argument;  // What follows, as written.
};
std::vector<Directive> FindDirectives(std::string_view source);

// Why the source reaches for files other than its headers: includes by absolute path, through a
// parent folder or from a macro, #embed, pragmas that read files. Empty when it does not.
std::vector<Diagnostic> FindFileAccess(std::string_view source, const std::string& name);

// For the cpu target: rewrites `extern __shared__ T name[];` for the runtime header. No line moves.
std::string RewriteDynamicShared(std::string_view source);

// Whether the source names something at which a thread may wait for others: barriers, warp
// operations, cooperative groups. It may still wait through a macro that pastes such a name.
bool NamesWait(std::string_view source);

}  // namespace fettle
