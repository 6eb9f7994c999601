// SPDX-License-Identifier: Apache-2.0
#include "compiler/sandbox.h"

#include <sys/stat.h>
#include <unistd.h>

namespace fettle {
namespace {

std::string FindBwrap() {
  for (const char* path : {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return {};
}

// The host's top-level links into /usr (or the real folders, where they are not merged).
void AddSystemFolders(std::vector<std::string>& argv) {
  argv.insert(argv.end(), {"--ro-bind", "/usr", "/usr"});
  // Where the loader finds libraries, and the links that packages choose versions by.
  for (const char* path : {"/etc/ld.so.cache", "/etc/alternatives"}) {
    argv.insert(argv.end(), {"--ro-bind-try", path, path});
  }
  for (const char* name : {"bin", "lib", "lib64", "lib32"}) {
    const std::string path = fmt::format("/{}", name);
    struct stat info = {};
    if (lstat(path.c_str(), &info) != 0) continue;
    if (S_ISLNK(info.st_mode)) {
      argv.insert(argv.end(), {"--symlink", fmt::format("usr/{}", name), path});
    } else {
      argv.insert(argv.end(), {"--ro-bind", path, path});
    }
  }
}

}  // namespace

Sandbox Sandbox::Probe() {
  const std::string bwrap = FindBwrap();
  if (bwrap.empty()) return None("bubblewrap is not installed");
  const Sandbox sandbox(bwrap, "");
  ChildCommand command = sandbox.Wrap({.argv = {"/usr/bin/true"}}, {});
  command.limits.wall = std::chrono::seconds(20);
  const absl::StatusOr<ChildResult> result = RunChild(command, {});
  if (!result.ok()) return None(std::string(result.status().message()));
  if (!result->ok()) {
    const std::string first = result->output.substr(0, result->output.find('\n'));
    return None(
        fmt::format("bubblewrap does not work here: {}", first.empty() ? result->Ending() : first));
  }
  return sandbox;
}

ChildCommand Sandbox::Wrap(ChildCommand command, const std::vector<SandboxMount>& mounts) const {
  if (!available()) return command;
  std::vector<std::string> argv = {bwrap_, "--unshare-all", "--die-with-parent"};
  AddSystemFolders(argv);
  for (const SandboxMount& mount : mounts) {
    argv.insert(argv.end(), {mount.writable ? "--bind" : "--ro-bind", mount.host, mount.inside});
  }
  if (!command.working_dir.empty()) argv.insert(argv.end(), {"--chdir", command.working_dir});
  command.working_dir.clear();
  argv.push_back("--");
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  command.argv = std::move(argv);
  return command;
}

std::string ShellQuote(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string ShellJoin(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += ShellQuote(word);
  }
  return line;
}

}  // namespace fettle
