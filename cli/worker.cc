// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "proto/channel.h"
#include "worker/worker_client.h"

namespace fettle {
namespace {

class WorkerCommand final : public Subcommand {
 public:
  std::string name() const override { return "worker"; }
  std::string summary() const override { return "offer this machine's devices to a server"; }
  std::string details() const override {
    return "Connects outwards and reconnects by itself. SIGTERM gives its leases back and ends "
           "it.\n"
           "Devices are those that the environment allows, as a batch system sets it\n"
           "(CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES).";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--endpoint", "ADDRESS", &options_.endpoint.endpoint,
               "server: unix:/path or host:port (FETTLE_ENDPOINT)");
    flags
        .Flag("--token-file", "FILE", &options_.endpoint.token_file,
              "file with the worker's token, mode 0600 (FETTLE_TOKEN_FILE)")
        .completes = Completes::kFile;
    flags.Flag("--ca", "FILE", &options_.endpoint.ca_file, "certificate to trust (FETTLE_CA_FILE)")
        .completes = Completes::kFile;
    flags.Flag("--server-name", "NAME", &options_.endpoint.server_name,
               "name in the server's certificate, where it differs from the host");
    flags.Flag("--data-dir", "DIR", &data_, "data folder whose server is meant (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--device", "ID", &devices_, "device to offer; may be repeated (default: all)");
    flags.Flag("--compile-only", "", &compile_only_,
               "offer no device: compile and check on the cpu for workers that have one");
    local_.DeclareTools(flags);
    flags.Flag("--slots", "N", &slots_, "units held at once (default: by devices and cores)");
    flags.Flag("--idle-exit", "SECONDS", &idle_exit_s_,
               "end after so long without work or without the server (default: never)");
    flags.Flag("--until", "TIME", &until_s_,
               "seconds since 1970 when this process will be ended: before that it takes no more "
               "work (default: never)");
    flags.Flag("--compile-jobs", "N", &compile_jobs_, "compiles at once (default: one per core)");
    flags.Flag("--cache", "DIR", &local_.cache, "compile cache (default ~/.cache/fettle)")
        .completes = Completes::kFolder;
    flags
        .Flag("--runner", "FILE", &local_.runner,
              "the fettle-runner program (default: beside fettle)")
        .completes = Completes::kFile;
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (slots_ < 0 || slots_ > 64) return absl::InvalidArgumentError("--slots: 0 to 64");
    if (compile_jobs_ < 0 || compile_jobs_ > 1000) {
      return absl::InvalidArgumentError("--compile-jobs: 0 to 1000");
    }
    if (idle_exit_s_ < 0 || idle_exit_s_ > 10'000'000) {
      return absl::InvalidArgumentError("--idle-exit: 0 to 10000000");
    }
    if (until_s_ < 0 || until_s_ > 9'000'000'000) {
      return absl::InvalidArgumentError("--until: seconds since 1970");
    }
    if (compile_only_ && !devices_.empty()) {
      return absl::InvalidArgumentError("--compile-only: it offers no --device");
    }
    options_.idle_exit = std::chrono::seconds(idle_exit_s_);
    options_.until_ns = until_s_ * 1'000'000'000;
    if (options_.endpoint.endpoint.empty() && !data_.empty()) {
      options_.endpoint.endpoint = SocketEndpoint(DataFolder(data_));
    }
    FETTLE_ASSIGN_OR_RETURN(options_.endpoint, ResolveEndpoint(std::move(options_.endpoint)));
    options_.runner = local_.ToOptions();
    options_.runner.device_ids = devices_;
    options_.runner.compile_only = compile_only_;
    options_.runner.compile_jobs = static_cast<int>(compile_jobs_);
    options_.slots = static_cast<int>(slots_);
    if (!options_.runner.cache_dir.empty()) {
      FETTLE_RETURN_IF_ERROR(MakePrivateFolder(options_.runner.cache_dir));
    }
    FETTLE_RETURN_IF_ERROR(RunWorker(options_, context.stop));
    return ExitCode::kOk;
  }

 private:
  std::string data_;
  WorkerOptions options_;
  LocalFlags local_;
  std::vector<std::string> devices_;
  bool compile_only_ = false;
  std::int64_t slots_ = 0, compile_jobs_ = 0, idle_exit_s_ = 0, until_s_ = 0;
};

}  // namespace

std::unique_ptr<Subcommand> MakeWorkerCommand() { return std::make_unique<WorkerCommand>(); }

}  // namespace fettle
