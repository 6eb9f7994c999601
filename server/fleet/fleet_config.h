// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

// How Slurm starts the workers of one target. Empty texts: the site's defaults.
struct FleetTarget {
  std::string partition, account, qos;  // A job's own (fettle submit) come first.
  std::string gres;                     // As "gpu:h200:1".
  std::string time;                     // Limit of one worker, as sbatch takes it.
  std::int64_t time_s = 0;              // The same in seconds; 0: not known here.
  int width = 0;                        // Workers of one job at most.
  int devices = 1;                      // That one worker is given.
  int idle_s = 300;                     // A worker without work ends after so long.
  std::string setup;                    // Shell lines before the worker, as "module load cuda".
  std::vector<std::string> launch;      // Words before it, as "apptainer exec --nv fettle.sif".
  std::vector<std::string> options;     // Further ones of sbatch.
  std::vector<std::string> arguments;   // Further ones of fettle worker.
};

// The file of `fettle serve --fleet` (docs/fleet.md).
struct FleetConfig {
  std::string endpoint;     // "host:port" that workers connect to.
  std::string ca_file;      // As the nodes see it; empty: the system's certificates.
  std::string server_name;  // In the certificate, where it differs from the host.
  std::string program;      // fettle, as the nodes see it; empty: this program.
  std::string folder;       // For job scripts, tokens, logs; seen by the nodes. Empty: in the data.
  std::int64_t poll_ms = 10'000;  // Between looks at Slurm's queue.
  std::map<std::string, FleetTarget> targets;
  // Workers of a target that only compile; `devices` is 0, and `width` 0 where there are none.
  std::map<std::string, FleetTarget> compilers;
};

// kInvalidArgument: "file:line:column: ..." of every mistake.
absl::StatusOr<FleetConfig> ParseFleetConfig(const std::string& file, std::string_view text);
absl::StatusOr<FleetConfig> LoadFleetConfig(const std::string& path);

// Whether `text` may be an account, a partition or a QOS: it becomes a word of a command.
bool IsFleetName(std::string_view text);

}  // namespace fettle
