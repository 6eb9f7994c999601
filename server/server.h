// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "judge/accept.h"
#include "server/dispatcher.h"
#include "server/job_options.h"

namespace fettle {

// The proposers of this program.
std::vector<std::string> DefaultProposerKinds();
ProposerFactory DefaultProposers();

struct ServerOptions {
  std::string data_dir;     // Empty: DefaultDataDir().
  std::string socket_path;  // Empty: fettle.sock in the data folder.
  // Further endpoints, "host:port" (port 0: any). On these every call needs a token; other than
  // loopback needs TLS too.
  std::vector<std::string> listen;
  std::string token_file;  // Empty: tokens.json in the data folder, made when missing.
  std::string tls_certificate_file, tls_key_file;  // PEM.
  bool reflection = false;
  // The dashboard and the HTTP API: "host:port" (port 0: any); empty: none. Beyond loopback it
  // needs TLS, and with a certificate it always speaks it.
  std::string http;
  bool http_any_port_if_taken = false;
  std::vector<std::string> http_names;  // Further "host:port" by which browsers reach it.
  // Program and arguments of the local worker, before its endpoint ("fettle", "worker"); empty:
  // none.
  std::vector<std::string> local_worker;
  // The file that says how Slurm starts workers (server/fleet/fleet_config.h); empty: it starts
  // none. `fleet_program`: fettle, unless the file says otherwise.
  std::string fleet_file, fleet_program;
  ProposerFactory proposers;  // Unset: DefaultProposers().
  std::vector<std::string> proposer_kinds = DefaultProposerKinds();
  std::string models_file;  // Over the bundled models (docs/agent.md); empty: those alone.
  std::string version;      // Empty: this program's own.

  // For tests.
  Clock* clock = nullptr;  // Null: SystemClock(). Outlives the server.
  DispatcherOptions dispatcher;
  judge::AcceptanceRule rule;
  RetryPolicy retry;
  InterruptibleSleep sleep;                                 // Unset: RealSleep().
  std::function<absl::Status(std::int64_t)> before_commit;  // StoreOptions::before_commit.
  std::int64_t max_pages = 0;                               // 0: no limit.
};

// A running server. Movable pieces live in server.cc.
class Server {
 public:
  // Opens the data folder, takes up open jobs and serves.
  // kUnavailable: another server uses the folder; a port is taken. kFailedPrecondition: another one
  // answers on the socket; a newer program wrote the folder. kInvalidArgument names the option.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  virtual ~Server() = default;

  // Ends streams, calls, jobs and the local worker within two seconds. Everything stored stays;
  // jobs go on at the next start. Idempotent.
  virtual void Shutdown() = 0;
  // "unix:..." first, then the TCP endpoints with the ports that were bound.
  virtual std::vector<std::string> endpoints() const = 0;
  // The dashboard's address with a secret that logs in, for the server's owner; empty: none.
  virtual std::string login_link() const = 0;
  // Process id of the local worker; 0: none is running.
  virtual int local_worker_pid() const = 0;
};

// Serves until SIGINT or SIGTERM; prints one line to standard output once ready. Call before the
// process has other threads. Returns an exit code.
int RunServer(ServerOptions options);

}  // namespace fettle
