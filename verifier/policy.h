// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/target.h"
#include "core/task.h"
#include "core/verdict.h"

namespace fettle {

// What a task allows beyond the defaults.
struct PolicyRules {
  Vendor vendor = Vendor::kCpu;
  bool allow_asm = false;
  std::vector<std::string> options;           // Of the candidate, to be checked.
  std::vector<std::string> allowed_options;   // Beyond the default list, exactly as written.
  std::vector<std::string> allowed_includes;  // Beyond the default list.
};

// The static policy (DESIGN.md 7 "Refuse before running"): looks at tokens after macro expansion,
// so that comments, strings and names that merely contain a banned word are free. It keeps honest
// mistakes and lazy tricks out; the sandbox is what holds.
//
// Returns REFUSED at stage policy with reason policy_include, policy_directive, policy_pragma,
// policy_asm, policy_attribute, policy_host_code, policy_host_call, policy_builtin, policy_option
// or policy_too_long, and {"file", "line"} as evidence; nothing when all is well.
std::optional<VerdictRecord> CheckPolicy(const KernelSpec& kernel, const PolicyRules& rules);

// One file of it. `own_headers` are the kernel's further files.
std::optional<VerdictRecord> CheckSourcePolicy(const std::string& name, const std::string& source,
                                               const std::vector<std::string>& own_headers,
                                               const PolicyRules& rules);

}  // namespace fettle
