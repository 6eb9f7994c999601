// SPDX-License-Identifier: Apache-2.0
#pragma once

// Units of work on this machine, without a server: check, try and verify --rerun.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "cli/subcommand.h"
#include "core/blob.h"
#include "core/task.h"
#include "core/work_unit.h"
#include "worker/unit_runner.h"

namespace fettle {

// Blobs of one command's life. Thread-safe.
class MemoryBlobs final : public BlobStore {
 public:
  absl::StatusOr<std::string> Get(std::string_view digest) override;
  absl::StatusOr<std::string> Put(std::string_view bytes) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> blobs_;  // Guarded by mutex_.
};

struct LocalFlags {
  std::string runner;             // fettle-runner; empty: beside this binary.
  std::string cache;              // Empty: $XDG_CACHE_HOME/fettle or ~/.cache/fettle.
  std::string device;             // Empty: every device found.
  std::string emulators;          // File of emulated devices; empty: $FETTLE_EMULATORS, else none.
  std::string compute_sanitizer;  // Empty: $FETTLE_COMPUTE_SANITIZER, else found.

  void Declare(FlagSet& flags);
  void DeclareTools(FlagSet& flags);  // The flags of Declare that `worker` shares.
  UnitRunnerOptions ToOptions() const;
};

// This machine's runner and the blobs that its units read and write.
struct LocalLab {
  std::unique_ptr<UnitRunner> runner;
  std::unique_ptr<MemoryBlobs> blobs;

  // kUnavailable: fettle-runner or every compiler is missing.
  static absl::StatusOr<LocalLab> Open(const LocalFlags& flags);
  // Runs `unit` with its progress on the status line. A second try is made when the infrastructure
  // failed.
  absl::StatusOr<UnitResult> Run(Context& context, WorkUnit unit);
};

// "auto": the target of the first device that is not the cpu, else "cpu". Anything else as it is.
std::string ChooseTarget(const std::string& target, const UnitRunner& runner);

// A seed that nobody can guess.
std::uint64_t DrawSeed();

// A unit over a task's baseline: id, task digest, target, seeds. The task's blob is put into
// `blobs`.
absl::StatusOr<WorkUnit> BaselineUnit(UnitKind kind, const Task& task, const std::string& target,
                                      BlobStore& blobs);

}  // namespace fettle
