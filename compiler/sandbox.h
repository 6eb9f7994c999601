// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "compiler/child_process.h"

namespace fettle {

// A host folder that a sandboxed program sees under the path `inside`.
struct SandboxMount {
  std::string host, inside;
  bool writable = false;
};

// Runs compilers in bubblewrap with only /usr and the named folders in sight: no other files, no
// network, no other processes. Where bubblewrap or user namespaces are missing, programs run with
// the host's view; available() and problem() say so, and the caller warns.
class Sandbox {
 public:
  // Starts one program to see whether it works here.
  static Sandbox Probe();
  // No isolation, for tests of that case.
  static Sandbox None(std::string problem) { return Sandbox("", std::move(problem)); }

  bool available() const { return !bwrap_.empty(); }
  const std::string& problem() const { return problem_; }
  // The path under which programs see the mount.
  const std::string& Seen(const SandboxMount& mount) const {
    return available() ? mount.inside : mount.host;
  }
  // Adds what isolates `command` (its argv and working folder are as seen inside).
  ChildCommand Wrap(ChildCommand command, const std::vector<SandboxMount>& mounts) const;

 private:
  Sandbox(std::string bwrap, std::string problem)
      : bwrap_(std::move(bwrap)), problem_(std::move(problem)) {}

  std::string bwrap_, problem_;
};

// Quotes for a POSIX shell.
std::string ShellQuote(const std::string& text);
std::string ShellJoin(const std::vector<std::string>& words);

}  // namespace fettle
