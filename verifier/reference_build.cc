// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference_build.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "compiler/child_process.h"
#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {

std::string_view ReferenceHeaderText();  // Generated from core/fettle_reference.h.

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLogBytes = 700;
const std::vector<std::string> kFlags = {
    "-std=c++20",           "-O2", "-fPIC", "-shared", "-x", "c++", "-ffp-contract=off",
    "-fvisibility=default", "-w"};

// A folder that is removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "fettle-reference-XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::optional<std::string> ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

bool WriteFile(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  return out.good();
}

// Whether `path` stays inside the folder it is relative to.
bool IsPlainRelative(const std::string& path) {
  const fs::path p(path);
  if (p.empty() || p.is_absolute()) return false;
  for (const fs::path& part : p) {
    if (part == "..") return false;
  }
  return true;
}

absl::StatusOr<ChildResult> Run(std::vector<std::string> argv, const fs::path& folder) {
  ChildCommand command;
  command.argv = std::move(argv);
  command.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "TMPDIR=" + folder.string()};
  command.working_dir = folder.string();
  command.limits.wall = std::chrono::seconds(120);
  command.limits.output_bytes = 64 * 1024;
  return RunChild(command, std::stop_token());
}

}  // namespace

absl::StatusOr<std::string> BuildReference(const std::map<std::string, std::string>& files,
                                           const std::string& file, const std::string& compiler,
                                           const std::string& cache_dir) {
  if (!files.contains(file)) {
    return absl::FailedPreconditionError(fmt::format("the task has no file '{}'", file));
  }
  const ScratchFolder scratch;
  if (scratch.path().empty()) return absl::InternalError("make a temporary folder for a reference");
  FETTLE_ASSIGN_OR_RETURN(const ChildResult version,
                          Run({compiler, "-dumpfullversion"}, scratch.path()));
  std::string identity = fmt::format("reference 1|{}|{}|{}|{}", compiler, version.output,
                                     fmt::join(kFlags, " "), file);
  for (const auto& [path, text] : files) {
    if (!path.ends_with(".npy")) identity += fmt::format("|{}|{}", path, Sha256Hex(text));
  }
  identity += Sha256Hex(ReferenceHeaderText());
  const fs::path cached = cache_dir.empty()
                              ? fs::path()
                              : fs::path(cache_dir) / "reference" / (Sha256Hex(identity) + ".so");
  if (!cached.empty()) {
    if (auto library = ReadFile(cached); library && !library->empty()) return *std::move(library);
  }
  for (const auto& [path, text] : files) {
    if (path.ends_with(".npy") || !IsPlainRelative(path)) continue;
    if (!WriteFile(scratch.path() / "task" / path, text)) {
      return absl::InternalError(fmt::format("write '{}' into a temporary folder", path));
    }
  }
  if (!WriteFile(scratch.path() / "include" / "fettle_reference.h", ReferenceHeaderText())) {
    return absl::InternalError("write fettle_reference.h into a temporary folder");
  }
  std::vector<std::string> argv = {compiler};
  argv.insert(argv.end(), kFlags.begin(), kFlags.end());
  for (const char* argument : {"-Iinclude", "-Itask", "-o", "out.so"}) argv.emplace_back(argument);
  argv.push_back("task/" + file);
  FETTLE_ASSIGN_OR_RETURN(const ChildResult compiled, Run(std::move(argv), scratch.path()));
  if (!compiled.ok()) {
    return absl::FailedPreconditionError(fmt::format("compile the task's {}: {}: {}", file,
                                                     compiled.Ending(),
                                                     compiled.output.substr(0, kLogBytes)));
  }
  auto library = ReadFile(scratch.path() / "out.so");
  if (!library) return absl::InternalError("the compiler left no reference library");
  if (!cached.empty()) {
    // Written beside and renamed, so that another process never sees half of it.
    const fs::path partial = cached.string() + fmt::format(".{}", getpid());
    std::error_code ignored;
    if (WriteFile(partial, *library)) fs::rename(partial, cached, ignored);
  }
  return *std::move(library);
}

}  // namespace fettle
