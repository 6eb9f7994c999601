// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "server/server.h"

namespace fettle {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitUsage = 2;
constexpr int kExitUnavailable = 3;

}  // namespace

int RunServer(ServerOptions options) {
  // Before the first thread, so that all inherit the mask and the signals arrive here only.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("fettle"));

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(std::move(options));
  if (!server.ok()) {
    fmt::print(stderr, "fettle serve: {}\n", StatusText(server.status()));
    return absl::IsInvalidArgument(server.status()) ? kExitUsage : kExitUnavailable;
  }
  fmt::print("fettle serve: ready on {}\n", fmt::join((*server)->endpoints(), ", "));
  if (const std::string link = (*server)->login_link(); !link.empty()) {
    fmt::print("fettle serve: dashboard at {}\n", link);
  }
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // A second signal kills at once.
  spdlog::info("shutting_down signal={}", signal);
  (*server)->Shutdown();
  return kExitOk;
}

}  // namespace fettle
