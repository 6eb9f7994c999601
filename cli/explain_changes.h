// SPDX-License-Identifier: Apache-2.0
#pragma once

// What tells two kernels apart, one change at a time, and kernels with some of the changes.

#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "core/work_unit.h"

namespace fettle {

struct VariantChange {
  enum class Kind { kHunk, kTunable, kPlan };
  Kind kind = Kind::kHunk;
  std::string label;  // "kernel.cu:12: 3 lines for 1", "BLOCK: 128 for 64", "launch plan"
  std::string text;   // The hunk's lines with '-' and '+'; empty for others.
  // kHunk: lines of the parent's source that go (from 0), and what stands there instead.
  std::size_t begin = 0, removed = 0;
  std::vector<std::string> added;
  // kTunable.
  std::string tunable;
  std::int64_t value = 0;
};

// The changes that lead from `parent` to `winner`: hunks of the source from top to bottom, then
// tunables whose values differ, then, where launches, workspace, tunables, guards or headers
// differ, everything of that as one change (the plan), which then also holds the tunables.
std::vector<VariantChange> ChangesBetween(const KernelUnderTest& parent,
                                          const KernelUnderTest& winner);

// `parent` with the changes whose `kept` is true. kept.size() == changes.size(). The digest is left
// empty.
KernelUnderTest ApplyChanges(const KernelUnderTest& parent, const KernelUnderTest& winner,
                             const std::vector<VariantChange>& changes,
                             const std::vector<bool>& kept);

// What leaving one change out showed. `gain`: the whole kernel's speed over what is left, with its
// interval.
enum class ChangeWorth {
  kNeeded,    // What is left does not work, or is slower beyond doubt.
  kUnclear,   // It may be as fast: the change stays, but is not shown to matter.
  kNotNeeded  // It is as fast: the change went.
};
ChangeWorth WorthOf(bool works, double gain_low, double gain_high);
std::string_view ChangeWorthName(ChangeWorth worth);  // "needed", "unclear", "not needed"

}  // namespace fettle
