// SPDX-License-Identifier: Apache-2.0
#include "cli/local.h"

#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "cli/paths.h"
#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

std::string DefaultCache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/fettle";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/fettle";
}

}  // namespace

absl::StatusOr<std::string> MemoryBlobs::Get(std::string_view digest) {
  const std::lock_guard lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found != blobs_.end()) return found->second;
  return absl::NotFoundError(fmt::format("read blob {}: not known here", std::string(digest)));
}

absl::StatusOr<std::string> MemoryBlobs::Put(std::string_view bytes) {
  std::string digest = Sha256Hex(bytes);
  const std::lock_guard lock(mutex_);
  blobs_.emplace(digest, bytes);
  return digest;
}

void LocalFlags::Declare(FlagSet& flags) {
  flags.Flag("--device", "ID", &device, "device to use, as cpu or cuda:0 (default: all found)");
  DeclareTools(flags);
  flags.Flag("--cache", "DIR", &cache, "compile cache (default ~/.cache/fettle)").completes =
      Completes::kFolder;
  flags.Flag("--runner", "FILE", &runner, "the fettle-runner program (default: beside fettle)")
      .completes = Completes::kFile;
}

void LocalFlags::DeclareTools(FlagSet& flags) {
  flags
      .Flag("--emulators", "FILE", &emulators,
            "devices behind emulators (docs/emulation.md; FETTLE_EMULATORS)")
      .completes = Completes::kFile;
  flags
      .Flag("--compute-sanitizer", "FILE", &compute_sanitizer,
            "NVIDIA's compute-sanitizer, for would-be winners (default: found; "
            "FETTLE_COMPUTE_SANITIZER)")
      .completes = Completes::kFile;
}

UnitRunnerOptions LocalFlags::ToOptions() const {
  UnitRunnerOptions options;
  options.runner_path = runner.empty() ? ProgramFolder() + "/fettle-runner" : runner;
  options.cache_dir = cache.empty() ? DefaultCache() : cache;
  if (!device.empty()) options.device_ids = {device};
  const char* file = std::getenv("FETTLE_EMULATORS");
  options.compute_sanitizer = compute_sanitizer;
  options.emulators_file = !emulators.empty() || file == nullptr ? emulators : file;
  return options;
}

absl::StatusOr<LocalLab> LocalLab::Open(const LocalFlags& flags) {
  UnitRunnerOptions options = flags.ToOptions();
  if (!options.cache_dir.empty()) FETTLE_RETURN_IF_ERROR(MakePrivateFolder(options.cache_dir));
  LocalLab lab;
  FETTLE_ASSIGN_OR_RETURN(lab.runner, UnitRunner::Create(std::move(options)));
  lab.blobs = std::make_unique<MemoryBlobs>();
  return lab;
}

absl::StatusOr<UnitResult> LocalLab::Run(Context& context, WorkUnit unit) {
  absl::StatusOr<UnitResult> result;
  for (int attempt = 1; attempt <= 2; ++attempt) {
    unit.attempt = attempt;
    result = runner->Run(
        unit, *blobs, [&](std::string text) { context.terminal.Status(Printable(text)); },
        context.stop);
    context.terminal.Status("");
    if (result.ok() || !absl::IsUnavailable(result.status()) || context.stop.stop_requested())
      break;
  }
  return result;
}

std::string ChooseTarget(const std::string& target, const UnitRunner& runner) {
  if (target != "auto") return target;
  for (const DeviceInfo& device : runner.devices()) {
    if (device.target.vendor != Vendor::kCpu && !device.emulated) return device.target.name;
  }
  return "cpu";
}

std::uint64_t DrawSeed() {
  std::random_device random;
  return (static_cast<std::uint64_t>(random()) << 32) | random();
}

absl::StatusOr<WorkUnit> BaselineUnit(UnitKind kind, const Task& task, const std::string& target,
                                      BlobStore& blobs) {
  WorkUnit unit;
  unit.id = fmt::format("local-{}", std::string(UnitKindName(kind)));
  unit.kind = kind;
  unit.task_digest = task.digest();
  FETTLE_ASSIGN_OR_RETURN(unit.task_blob, blobs.Put(PackTaskFiles(task.files())));
  unit.target = target;
  unit.candidate.kernel = task.baseline();
  unit.candidate.values = task.baseline().values;
  unit.candidate.digest =
      CandidateDigest(task.digest(), target, unit.candidate.kernel, unit.candidate.values);
  unit.denominator = unit.candidate;
  unit.seed = DrawSeed();
  unit.held_out_seed = DrawSeed();
  unit.deadline_ms = 15 * 60 * 1000;
  return unit;
}

}  // namespace fettle
