// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "server/dispatcher.h"
#include "server/fleet/fleet_config.h"
#include "server/fleet/job_demand.h"
#include "server/fleet/slurm_client.h"
#include "server/fleet/slurm_pool.h"
#include "server/job_tokens.h"
#include "store/store.h"

namespace fettle {

struct FleetParts {
  Store& store;
  Dispatcher& dispatcher;
  JobTokens& tokens;  // Of workers.
  Clock& clock;
  std::string data_dir_id;                          // Slurm jobs are named after it.
  std::function<std::vector<JobDemand>()> demands;  // Of the jobs that run.
  SlurmClient::Runner run = RunCommand;
};

// Workers of pools.
struct FleetCounts {
  int wanted = 0, running = 0, pending = 0;
};

// Keeps for every job that runs as many workers as it can use: one pool each, under its owner's
// account, so that the server never decides between users. Asks at intervals, on a thread of its
// own; a pool whose workers end without ever connecting is asked less and less often. Thread-safe.
class Fleet {
 public:
  // `config`: program and folder filled in. The parts outlive this object.
  Fleet(FleetConfig config, FleetParts parts);
  ~Fleet();

  // Once the jobs are taken up.
  void Start();

  // Looks at the demands soon.
  void Poke();
  // Ends the thread, and a command of Slurm's that keeps it waiting. Workers stay: the next start
  // finds them. Idempotent.
  void Stop();

  // What became of a job's workers, as "Slurm job 12: 2 workers run, 4 wait (Resources)"; empty:
  // the job has none.
  std::string Describe(const std::string& job_id) const;
  // Over all jobs.
  FleetCounts Counts() const;

 private:
  struct Pool {
    std::string job_id;
    bool compiles = false;  // Its workers have no device.
    std::unique_ptr<WorkerPool> workers;
    FleetTarget target;
    FleetCounts counts;
    std::chrono::steady_clock::time_point next_ask{};
    std::chrono::milliseconds pause{}, paused{};  // After the next asking, after the last.
    std::int64_t asked_ns = 0;                    // 0: never.
  };

  void Loop();
  void Tick();
  // The key of a job's pool: "j12", or "j12-compile" of those that only compile.
  static std::string KeyOf(const std::string& job_id, bool compiles);
  // Null: no such workers are started for the job's target.
  absl::StatusOr<Pool*> PoolFor(const JobDemand& demand, bool compiles);
  // `connected`: workers of the pool that came since it was asked last.
  void KeepPool(const JobDemand& demand, bool compiles,
                const std::map<std::string, int>& connected);
  absl::Status Keep(const JobDemand& demand, const std::string& key, Pool& pool, int connected);
  // Ends the workers of jobs that do not run, also those that an earlier server left.
  void Release(const std::vector<JobDemand>& demands);
  void Tell(const std::string& key, std::string text);
  // Connected workers of the job that cannot measure for it.
  int OfOtherKind(const JobDemand& demand) const;
  absl::Status Record(const Pool& pool, const PoolState& state);
  std::string NameOf(const std::string& key) const;
  std::string FolderOf(const std::string& key) const;

  const FleetConfig config_;
  FleetParts parts_;
  std::stop_source stop_;
  SlurmClient slurm_;
  std::map<std::string, Pool> pools_;  // By KeyOf. Of the thread.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::string> texts_;  // By KeyOf. Guarded by mutex_.
  FleetCounts counts_;                        // Guarded by mutex_.
  bool poked_ = false;                        // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace fettle
