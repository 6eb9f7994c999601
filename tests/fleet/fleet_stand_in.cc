// SPDX-License-Identifier: Apache-2.0
// A worker whose units take as long as they are told and need no processor: fettle's own client
// around a runner that only waits. For tests of the fleet and for its figures.
//
//   fleet_stand_in worker [--idle-exit SECONDS] [--until TIME] [--slots N] [--workers N]
// --workers: so many workers in this one process, each with a connection of its own.
// FETTLE_STAND_IN_MS: how long a unit takes; FETTLE_STAND_IN_SPREAD: from 0 to 1, the share by
// which it may take less or more, drawn for each; FETTLE_STAND_IN_MODEL: the device it offers;
// FETTLE_STAND_IN_LOG: a file that gets a line "unit attempt began pid node devices came" as each
// begins, times in seconds since 1970.
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "proto/channel.h"
#include "tests/fakes/fake_results.h"
#include "worker/worker_client.h"

namespace fettle {
namespace {

std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

class StandIn final : public UnitRunner {
 public:
  std::vector<DeviceInfo> devices() const override {
    DeviceInfo device;
    device.id = "cpu";
    device.model = Variable("FETTLE_STAND_IN_MODEL", "stand-in");
    const absl::StatusOr<Target> target = FindTarget("cpu");
    FETTLE_CHECK(target.ok());
    device.target = *target;
    return {device};
  }
  nlohmann::json compilers() const override {
    return nlohmann::json::array({{{"name", "none"},
                                   {"identity", Variable("FETTLE_STAND_IN_COMPILER", "none 1")},
                                   {"targets", {"cpu"}}}});
  }
  absl::StatusOr<UnitResult> Run(const WorkUnit& unit, BlobStore&,
                                 const std::function<void(std::string)>&,
                                 std::stop_token stop) override {
    const double came = Now();
    // One at a time, as on a device.
    std::unique_lock lock(mutex_);
    if (!free_.wait(lock, stop, [this] { return !busy_; })) return absl::CancelledError("stopped");
    busy_ = true;
    Log(unit, came);
    wake_.wait_for(lock, stop, TimeOf(unit), [] { return false; });
    busy_ = false;
    free_.notify_one();
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (unit.kind == UnitKind::kRegister) return PassedRegistration(unit);
    // Every tenth value is a contender, so that confirmations are among the units.
    const auto value = unit.candidate.values.begin();
    const bool better = value != unit.candidate.values.end() && value->second % 10 == 7;
    UnitResult result = MeasuredResult(unit, better ? 1.5 : 1.0, better ? 1.0 : 0.9);
    result.environment["device"]["model"] = devices().front().model;
    return result;
  }
  absl::StatusOr<nlohmann::json> CeilingsOf(const std::string&, std::stop_token) override {
    return absl::NotFoundError("no device");
  }
  nlohmann::json DeviceStates() override { return nlohmann::json::array(); }

 private:
  static std::chrono::microseconds TimeOf(const WorkUnit& unit) {
    const double ms = std::atof(Variable("FETTLE_STAND_IN_MS", "100").c_str());
    const double spread = std::atof(Variable("FETTLE_STAND_IN_SPREAD", "0").c_str());
    std::mt19937_64 random(std::hash<std::string>()(unit.id));
    const double drawn = std::uniform_real_distribution<double>(-1, 1)(random);
    return std::chrono::microseconds(static_cast<std::int64_t>(1e3 * ms * (1 + spread * drawn)));
  }
  static double Now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  static void Log(const WorkUnit& unit, double came) {
    const std::string file = Variable("FETTLE_STAND_IN_LOG", "");
    if (file.empty()) return;
    // One write: several workers append to the file.
    std::FILE* out = std::fopen(file.c_str(), "a");
    if (out == nullptr) return;
    const std::string line =
        fmt::format("{} {} {:.6f} {} {} {} {:.6f}\n", unit.id, unit.attempt, Now(), getpid(),
                    Variable("SLURMD_NODENAME", "-"), Variable("CUDA_VISIBLE_DEVICES", "-"), came);
    std::fwrite(line.data(), 1, line.size(), out);
    std::fclose(out);
  }

  std::mutex mutex_;
  std::condition_variable_any free_, wake_;
  bool busy_ = false;  // Guarded by mutex_.
};

bool Serve(WorkerOptions options, std::int64_t number, std::stop_token stop) {
  options.blob_dir = fmt::format("/tmp/fettle-stand-in-{}-{}", getpid(), number);
  StandIn runner;
  const absl::Status served = ServeUnits(runner, options, std::move(stop));
  std::error_code ignored;
  std::filesystem::remove_all(options.blob_dir, ignored);
  if (!served.ok()) fmt::print(stderr, "fleet_stand_in: {}\n", StatusText(served));
  return served.ok();
}

int Main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source stop;
  std::thread([&signals, &stop] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) stop.request_stop();
  }).detach();
  WorkerOptions options;
  std::int64_t workers = 1;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::int64_t value = std::atoll(argv[i + 1]);
    if (flag == "--idle-exit") options.idle_exit = std::chrono::seconds(value);
    if (flag == "--until") options.until_ns = value * 1'000'000'000;
    if (flag == "--slots") options.slots = static_cast<int>(value);
    if (flag == "--workers") workers = value;
  }
  const absl::StatusOr<EndpointOptions> endpoint = ResolveEndpoint({});
  if (!endpoint.ok()) {
    fmt::print(stderr, "fleet_stand_in: {}\n", StatusText(endpoint.status()));
    return 2;
  }
  options.endpoint = *endpoint;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      if (!Serve(options, worker, stop.get_token())) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failed == 0 ? 0 : 3;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
