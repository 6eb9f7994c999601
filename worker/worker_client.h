// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>

#include "proto/channel.h"
#include "worker/unit_runner.h"

namespace fettle {

struct WorkerOptions {
  EndpointOptions endpoint;  // As resolved (ResolveEndpoint).
  UnitRunnerOptions runner;
  std::string worker_id;  // Empty: host, process id and a random part.
  std::string blob_dir;   // Empty: within the runner's cache folder.
  std::int64_t blob_limit_bytes = std::int64_t{4} << 30;
  int slots = 0;  // Units held at once; 0: devices and as many to compile ahead.
  // Ends after so long without a unit; 0: never. Also when the server is away for so long: then
  // nothing keeps what was given to this worker busy.
  std::chrono::milliseconds idle_exit{0};
  // When whoever placed this worker ends it; 0: not known. Well before that it takes no new units,
  // finishes what it holds and ends by itself.
  std::int64_t until_ns = 0;
};

// Serves a server's units with `runner` until `stop` is requested; then gives every lease back,
// delivers what is finished and returns. Reconnects for as long as the server is away, while held
// units go on; a finished result is kept until the server has acknowledged it.
//
// Returns OK after `stop`, when the server told it to drain, and when its time or its work is over.
// kUnauthenticated, kPermissionDenied, kInvalidArgument: the server refuses this worker, so trying
// again is no use.
absl::Status ServeUnits(UnitRunner& runner, const WorkerOptions& options, std::stop_token stop);

// The `fettle worker` command: makes the UnitRunner, then ServeUnits. The caller turns SIGTERM into
// `stop`.
absl::Status RunWorker(const WorkerOptions& options, std::stop_token stop);

}  // namespace fettle
