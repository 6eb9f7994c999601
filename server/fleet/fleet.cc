// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/fleet.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "proto/channel.h"
#include "store/files.h"
#include "store/fleet_store.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPause{300'000};
// Of workers that only compile: one has several cores, and a device's worker holds two units.
constexpr std::int64_t kUnitsPerCompiler = 8;
constexpr std::int64_t kHeldByDevice = 2;
constexpr std::size_t kNameBytes = 8;  // Of the data folder's id, in the names of Slurm jobs.

std::string Plural(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string TextOf(const PoolState& state, int wanted) {
  if (state.running + state.pending == 0) {
    return wanted == 0 ? "" : fmt::format("asks Slurm for {}", Plural(wanted, "worker"));
  }
  std::string text = fmt::format("{}: {} on {}", state.name, Plural(state.running, "worker"),
                                 state.running == 1 ? "its place" : "their places");
  if (state.pending > 0) {
    text += fmt::format(", {} waiting{}", state.pending,
                        state.reason.empty() ? "" : fmt::format(" ({})", state.reason));
  }
  return text;
}

}  // namespace

Fleet::Fleet(FleetConfig config, FleetParts parts)
    : config_(std::move(config)),
      parts_(std::move(parts)),
      slurm_(milliseconds(config_.poll_ms) / 2, parts_.run, stop_.get_token()) {}

void Fleet::Start() {
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "fleet");
}

Fleet::~Fleet() { Stop(); }

void Fleet::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Fleet::Poke() {
  {
    const std::lock_guard lock(mutex_);
    poked_ = true;
  }
  wake_.notify_all();
}

std::string Fleet::Describe(const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const bool compiles : {false, true}) {
    const auto found = texts_.find(KeyOf(job_id, compiles));
    if (found == texts_.end() || found->second.empty()) continue;
    text += (text.empty() ? "" : "; ") + std::string(compiles ? "compiling: " : "") + found->second;
  }
  return text;
}

FleetCounts Fleet::Counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Fleet::Loop() {
  while (true) {
    Tick();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, milliseconds(config_.poll_ms),
                   [this] { return stop_.stop_requested() || poked_; });
    if (stop_.stop_requested()) return;
    poked_ = false;
  }
}

void Fleet::Tick() {
  const std::vector<JobDemand> demands = parts_.demands();
  std::map<std::string, int> connected;  // Since the pool was asked last.
  for (const WorkerView& worker : parts_.dispatcher.Workers()) {
    const auto pool = pools_.find(KeyOf(worker.job_id, worker.compiles_only()));
    if (pool != pools_.end() && worker.connected_ns >= pool->second.asked_ns) {
      ++connected[pool->first];
    }
  }
  for (const JobDemand& demand : demands) {
    KeepPool(demand, /*compiles=*/false, connected);
    KeepPool(demand, /*compiles=*/true, connected);
  }
  Release(demands);
  FleetCounts counts;
  for (const auto& [job_id, pool] : pools_) {
    counts.wanted += pool.counts.wanted;
    counts.running += pool.counts.running;
    counts.pending += pool.counts.pending;
  }
  const std::lock_guard lock(mutex_);
  counts_ = counts;
}

std::string Fleet::NameOf(const std::string& key) const {
  return fmt::format("fettle-{}-{}", parts_.data_dir_id.substr(0, kNameBytes), key);
}

std::string Fleet::FolderOf(const std::string& key) const { return config_.folder + "/" + key; }

std::string Fleet::KeyOf(const std::string& job_id, bool compiles) {
  return job_id + (compiles ? "-compile" : "");
}

void Fleet::KeepPool(const JobDemand& demand, bool compiles,
                     const std::map<std::string, int>& connected) {
  const std::string key = KeyOf(demand.job_id, compiles);
  const absl::StatusOr<Pool*> pool = PoolFor(demand, compiles);
  absl::Status kept = pool.status();
  if (pool.ok()) {
    if (*pool == nullptr) return;
    const auto came = connected.find(key);
    kept = Keep(demand, key, **pool, came == connected.end() ? 0 : came->second);
  }
  if (!kept.ok()) {
    Tell(key, fmt::format("no answer about workers, asks again: {}", StatusText(kept)));
  }
}

absl::StatusOr<Fleet::Pool*> Fleet::PoolFor(const JobDemand& demand, bool compiles) {
  const std::string key = KeyOf(demand.job_id, compiles);
  if (const auto found = pools_.find(key); found != pools_.end()) return &found->second;
  const auto& targets = compiles ? config_.compilers : config_.targets;
  const auto target = demand.target == "auto" ? targets.begin() : targets.find(demand.target);
  if (target == targets.end() || target->second.width == 0) return nullptr;
  SlurmPoolOptions options;
  options.name = NameOf(key);
  options.folder = FolderOf(key);
  options.program = config_.program;
  options.token_file = options.folder + "/token";
  options.endpoint = config_.endpoint;
  options.ca_file = config_.ca_file;
  options.server_name = config_.server_name;
  options.target = target->second;
  if (!demand.account.empty()) options.target.account = demand.account;
  // A job names where its devices are.
  if (!demand.partition.empty() && !compiles) options.target.partition = demand.partition;
  if (!demand.qos.empty() && !compiles) options.target.qos = demand.qos;
  FETTLE_RETURN_IF_ERROR(MakeFolder(options.folder));
  // Workers that an earlier server started hold the token of this file.
  const absl::StatusOr<std::string> token = ReadSecretFile(options.token_file);
  if (!token.ok() || !parts_.tokens.JobOf(token->substr(0, token->find('\n'))).has_value()) {
    FETTLE_ASSIGN_OR_RETURN(const std::string fresh,
                            parts_.tokens.Create(parts_.store, demand.job_id, parts_.clock));
    FETTLE_RETURN_IF_ERROR(WriteFileDurably(options.token_file, fresh + "\n"));
    std::filesystem::permissions(options.token_file, std::filesystem::perms::owner_read |
                                                         std::filesystem::perms::owner_write);
  }
  Pool& pool = pools_[key];
  pool.job_id = demand.job_id;
  pool.compiles = compiles;
  pool.target = options.target;
  pool.pause = milliseconds(config_.poll_ms);
  pool.workers = std::make_unique<SlurmPool>(slurm_, std::move(options));
  return &pool;
}

absl::Status Fleet::Keep(const JobDemand& demand, const std::string& key, Pool& pool,
                         int connected) {
  // What the device's worker holds anyway needs no other to compile it.
  const std::int64_t units =
      pool.compiles ? std::max<std::int64_t>(demand.units - kHeldByDevice, 0) : demand.units;
  const std::int64_t share = pool.compiles ? kUnitsPerCompiler : pool.target.devices;
  pool.counts.wanted =
      static_cast<int>(std::min<std::int64_t>((units + share - 1) / share, pool.target.width));
  FETTLE_ASSIGN_OR_RETURN(PoolState state, pool.workers->State());
  const int there = state.running + state.pending;
  const auto now = parts_.clock.Steady();
  if (connected > 0) pool.pause = milliseconds(config_.poll_ms);
  if (there > pool.counts.wanted || (there < pool.counts.wanted && now >= pool.next_ask)) {
    const absl::StatusOr<int> asked = pool.workers->Ensure(pool.counts.wanted);
    if (!asked.ok() || *asked > 0) {
      // Doubled until a worker of these connects.
      pool.next_ask = now + pool.pause;
      pool.paused = pool.pause;
      pool.pause = std::min(2 * pool.pause, kLongestPause);
      pool.asked_ns = parts_.clock.NowNs();
    }
    if (!asked.ok()) return asked.status();
    if (*asked > 0) {
      spdlog::info("workers_asked job_id={} workers={} wanted={} compile={}", demand.job_id, *asked,
                   pool.counts.wanted, pool.compiles);
    }
    FETTLE_ASSIGN_OR_RETURN(state, pool.workers->State());
  }
  pool.counts.running = state.running;
  pool.counts.pending = state.pending;
  FETTLE_RETURN_IF_ERROR(Record(pool, state));
  std::string text = TextOf(state, pool.counts.wanted);
  if (state.running + state.pending < pool.counts.wanted && pool.asked_ns != 0 && connected == 0) {
    // The same words until it asks again, since each change is logged.
    if (there == 0 && now < pool.next_ask) {
      text =
          fmt::format("the workers ended without connecting, see {}; asks again after {} s",
                      FolderOf(key), std::chrono::ceil<std::chrono::seconds>(pool.paused).count());
    }
  }
  if (const int others = pool.compiles ? 0 : OfOtherKind(demand); others > 0) {
    text += fmt::format("; {} with another device or toolchain than the job's ({}, {})",
                        Plural(others, "worker"), demand.device_model, demand.toolchain);
  }
  Tell(key, std::move(text));
  return absl::OkStatus();
}

int Fleet::OfOtherKind(const JobDemand& demand) const {
  if (demand.device_model.empty()) return 0;
  int others = 0;
  for (const WorkerView& worker : parts_.dispatcher.Workers()) {
    if (worker.job_id != demand.job_id || worker.compiles_only()) continue;
    const auto toolchain = worker.toolchains.find(demand.target);
    const bool same_toolchain = demand.toolchain.empty() || (toolchain != worker.toolchains.end() &&
                                                             toolchain->second == demand.toolchain);
    const bool same_device =
        std::any_of(worker.devices.begin(), worker.devices.end(), [&](const OfferedDevice& device) {
          return device.target == demand.target && device.model == demand.device_model;
        });
    if (!same_toolchain || !same_device) ++others;
  }
  return others;
}

absl::Status Fleet::Record(const Pool& pool, const PoolState& state) {
  if (state.allocations.empty()) return absl::OkStatus();
  const std::int64_t now = parts_.clock.NowNs();
  return parts_.store.Write([&](Connection& db) -> absl::Status {
    for (const PoolAllocation& one : state.allocations) {
      FETTLE_RETURN_IF_ERROR(
          PutAllocation(db, pool.job_id, one.id, pool.target.devices, one.held_s, now));
    }
    return absl::OkStatus();
  });
}

void Fleet::Release(const std::vector<JobDemand>& demands) {
  const auto runs = [&](const std::string& job_id) {
    return std::any_of(demands.begin(), demands.end(),
                       [&](const JobDemand& demand) { return demand.job_id == job_id; });
  };
  for (auto pool = pools_.begin(); pool != pools_.end();) {
    if (runs(pool->second.job_id)) {
      ++pool;
      continue;
    }
    // What they held until now; where that cannot be had, little is missing.
    if (const auto state = pool->second.workers->State(); state.ok()) {
      const absl::Status recorded = Record(pool->second, *state);
      if (!recorded.ok()) spdlog::warn("allocations_not_stored error={}", StatusText(recorded));
    }
    absl::Status ended = pool->second.workers->Stop();
    if (ended.ok()) ended = parts_.tokens.Revoke(parts_.store, pool->second.job_id);
    if (!ended.ok()) {
      spdlog::warn("workers_not_released job_id={} error={}", pool->first, StatusText(ended));
      ++pool;
      continue;
    }
    spdlog::info("workers_released job_id={}", pool->first);
    std::error_code ignored;
    std::filesystem::remove(FolderOf(pool->first) + "/token", ignored);
    {
      const std::lock_guard lock(mutex_);
      texts_.erase(pool->first);
    }
    pool = pools_.erase(pool);
  }
  const absl::StatusOr<std::vector<SlurmTask>> queue = slurm_.Queue();
  if (!queue.ok()) return;  // The pools have said so.
  const std::string prefix = NameOf("");
  std::vector<std::string> left;
  for (const SlurmTask& task : *queue) {
    if (!task.name.starts_with(prefix) || pools_.contains(task.name.substr(prefix.size())))
      continue;
    if (!task.pending() && (!task.running() || task.state == "COMPLETING")) continue;
    if (std::find(left.begin(), left.end(), task.job_id) == left.end()) left.push_back(task.job_id);
  }
  if (left.empty()) return;
  spdlog::info("workers_of_ended_jobs slurm_jobs={}", fmt::join(left, ","));
  if (const absl::Status ended = slurm_.Cancel(left); !ended.ok()) {
    spdlog::warn("workers_not_released error={}", StatusText(ended));
  }
}

void Fleet::Tell(const std::string& key, std::string text) {
  const std::lock_guard lock(mutex_);
  std::string& known = texts_[key];
  if (known == text) return;
  known = std::move(text);
  spdlog::info("workers job_id={} state=\"{}\"", key, known);
}

}  // namespace fettle
