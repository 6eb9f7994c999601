// SPDX-License-Identifier: Apache-2.0

// fettle-runner: the sandboxed child in which candidate code runs. Started by the worker with one
// end of a socket pair; not meant to be started by hand.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/status_macros.h"
#include "profiler/ceilings.h"
#include "verifier/reference_server.h"
#include "worker/channel.h"
#include "worker/local_session.h"
#include "worker/lockdown.h"
#include "worker/open_device.h"
#include "worker/replay.h"
#include "worker/runner_protocol.h"
#include "worker/runner_server.h"
#include "worker/watchdog.h"

namespace fettle {
namespace {

// Exit codes; a signal or 128 + signal says more.
constexpr int kChannelFailed = 4;
constexpr int kDeviceFailed = 5;
constexpr int kReferenceNice = 5;  // As compiles have.

struct Options {
  int channel = -1;
  std::string device = "cpu";
  std::int64_t memory_bytes = 0;
  bool unshare = false;
  bool ceilings = false;
  bool reference = false;
  std::vector<std::string> replays;
};

std::uint64_t FreshKey() {
  std::random_device source;
  return (std::uint64_t{source()} << 32) | source();
}

// Answers the request that is being carried out and ends the process.
[[noreturn]] void EndWith(int channel, const absl::Status& status, int exit_code) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  SendMessage(channel, {{"error", ErrorJson(status)}}, -1, soon).IgnoreError();
  _exit(exit_code);
}

absl::Status Serve(const Options& options) {
  const bool hosts_candidate = options.device == "cpu" || options.device == "null";
  LockdownOptions lockdown;
  lockdown.hosts_candidate = hosts_candidate;
  lockdown.memory_bytes = hosts_candidate ? options.memory_bytes : 0;
  FETTLE_RETURN_IF_ERROR(ApplyLimits(lockdown));
  Watchdog watchdog(
      [channel = options.channel](const std::string& what) {
        EndWith(channel, absl::DeadlineExceededError(what), kDeviceFailed);
      },
      hosts_candidate ? Watchdog::Bounds::kProcessorTime : Watchdog::Bounds::kWallTime);
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> opened, OpenDevice(options.device));
  const std::unique_ptr<Device> device = WatchDevice(*opened, watchdog, std::chrono::seconds(10));
  FETTLE_RETURN_IF_ERROR(ApplyFinalFilter(lockdown));
  LocalSession::Options session_options;
  session_options.guard_key = FreshKey();
  session_options.memory_bytes = hosts_candidate ? options.memory_bytes / 4 : 0;
  session_options.set_launch_limit = [&device](std::chrono::nanoseconds limit) {
    SetLaunchLimit(*device, limit);
  };
  LocalSession session(*device, SystemClock(), session_options);
  RunnerHandlers handlers;
  handlers.session = &session;
  // Only a process that never meets candidate code measures what others are compared with.
  if (options.ceilings) handlers.ceilings = [&device] { return MeasureCeilings(*device); };
  return ServeRunner(options.channel, handlers);
}

// A task's own reference and checkers, apart from every candidate.
int ServeReferences(const Options& options) {
  // What is timed meanwhile needs a core at once; a reference can wait.
  if (nice(kReferenceNice) == -1) errno = 0;
  LockdownOptions lockdown;
  lockdown.memory_bytes = options.memory_bytes;
  absl::Status status = ApplyLimits(lockdown);
  if (status.ok()) status = ApplyFinalFilter(lockdown);
  if (!status.ok()) {
    std::fprintf(stderr, "fettle-runner: %s\n", std::string(status.message()).c_str());
    return kChannelFailed;
  }
  return ServeReference(options.channel);
}

// Under a vendor's profiler or sanitizer, outside the sandbox: only for devices whose kernels
// cannot reach this process.
int ReplayCalls(const Options& options) {
  absl::Status status = absl::InvalidArgumentError("only a GPU's call can be replayed");
  if (options.device != "cpu") {
    const absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options.device);
    status = device.ok() ? RunReplays(options.replays, **device) : device.status();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "fettle-runner: replay: %s\n", std::string(status.message()).c_str());
  return kDeviceFailed;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Runs kernels for a fettle worker, in a sandbox.", "fettle-runner");
  app.add_option("--channel", options.channel, "Descriptor of the socket to the worker");
  app.add_option("--device", options.device, "cpu, cuda:N or hip:N");
  app.add_option("--memory", options.memory_bytes, "Limit on memory, bytes");
  app.add_flag("--unshare", options.unshare, "Enter own namespaces first");
  app.add_flag("--ceilings", options.ceilings, "Measure ceilings; loads no code");
  app.add_flag("--reference", options.reference, "Serve a task's reference instead of a device");
  app.add_option("--replay", options.replays,
                 "Make the call in this file, without a worker; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI11_PARSE(app, argc, argv);
  if (!options.replays.empty()) return ReplayCalls(options);
  if (options.channel < 0) {
    std::fprintf(stderr, "fettle-runner: it is started by a worker, with --channel\n");
    return kChannelFailed;
  }
  // Without namespaces the limits and filters still hold; sandbox_level() says so to the operator.
  if (options.unshare) EnterNamespaces().IgnoreError();
  if (options.reference) return ServeReferences(options);
  const absl::Status status = Serve(options);
  if (status.ok()) return 0;
  if (absl::IsAborted(status) || absl::IsDeadlineExceeded(status)) return kDeviceFailed;
  EndWith(options.channel, status, kChannelFailed);
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
