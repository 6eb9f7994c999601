// SPDX-License-Identifier: Apache-2.0
#pragma once

// Changes to a kernel's source as proposers write them.

#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

struct SourceEdit {
  std::string find, replace;
};

// Applies a unified diff. Line numbers are only hints: a hunk's old lines must occur exactly once,
// or the occurrence nearest to its line number is taken where the header gives one. File names are
// not looked at; one file is meant. A missing space before an empty context line is forgiven.
//
// kInvalidArgument: no hunk, or a hunk whose old lines are not in the source (the message quotes
// the first one that differs).
absl::StatusOr<std::string> ApplyUnifiedDiff(std::string_view source, std::string_view diff);

// Replaces each `find` in turn. kInvalidArgument: it is empty, absent, or occurs more than once.
absl::StatusOr<std::string> ApplyEdits(std::string source, const std::vector<SourceEdit>& edits);

// The source as it counts for novelty: no comments, no white space beyond one blank between words,
// numbers and names as they are. Two sources that differ in layout alone normalize to the same
// text.
std::string NormalizeSource(std::string_view source);

}  // namespace fettle
