// SPDX-License-Identifier: Apache-2.0
// Prints what a lease costs without anything around it:
//   bench_leases [FOLDER [WORKERS [SECONDS]]]
// An owner stores a unit's row and queues it; the dispatcher stores the lease; a worker (in this
// process, over gRPC on a unix socket) answers at once; the owner stores the unit's end, and the
// worker may forget it. Three durable changes of a row, a payload of 20 kB, no candidate, no
// verdict. FOLDER holds the database: the disk decides.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/status_macros.h"
#include "proto/channel.h"
#include "server/worker_hub_service.h"
#include "store/candidate_store.h"
#include "tests/fakes/fake_results.h"
#include "tests/fakes/fake_worker.h"
#include "tests/fakes/store_rows.h"

namespace fettle {
namespace {

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

void Print(const char* what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double share) {
    return ms.empty() ? 0
                      : ms[static_cast<std::size_t>(share * static_cast<double>(ms.size() - 1))];
  };
  fmt::print("{}: p50 {:.2f} ms, p99 {:.2f} ms ({} times)\n", what, at(0.5), at(0.99), ms.size());
}

void PrintSyncs(const std::filesystem::path& folder) {
  const std::string probe = (folder / "probe").string();
  const int fd = open(probe.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  FETTLE_CHECK(fd >= 0);
  const std::string bytes(8192, 'x');
  std::vector<double> ms;
  for (int i = 0; i < 200; ++i) {
    FETTLE_CHECK(write(fd, bytes.data(), bytes.size()) > 0);
    const std::uint64_t begin = NowNs();
    FETTLE_CHECK(fdatasync(fd) == 0);
    ms.push_back(static_cast<double>(NowNs() - begin) / 1e6);
  }
  close(fd);
  Print("fdatasync of 8 KiB", std::move(ms));
}

class Bench {
 public:
  Bench(const std::filesystem::path& folder, int workers)
      : store_(OpenStore(folder)), dispatcher_(*store_, clock_, {}) {
    const std::string endpoint = "unix:" + (folder / "socket").string();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials());
    builder.RegisterService(&hub_);
    server_ = builder.BuildAndStart();
    FETTLE_CHECK(server_ != nullptr);
    for (int i = 0; i < workers; ++i) {
      auto channel = OpenChannel({.endpoint = endpoint});
      FETTLE_CHECK(channel.ok());
      workers_.push_back(std::make_unique<FakeWorker>(
          *channel, FakeWorkerOptions{.id = fmt::format("w{}", i), .slots = 16},
          [this](const WorkUnit& unit) { return Answer(unit); }));
    }
    while (dispatcher_.Workers().size() < workers_.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Bench() {
    hub_.CloseSessions();
    for (auto& worker : workers_) worker->Stop();
    server_->Shutdown();
    dispatcher_.Stop();
    executor_.Stop();
  }

  // Keeps `at_once` units under way for a while.
  void Run(int at_once, std::chrono::milliseconds span) {
    waits_.clear();
    const auto begin = std::chrono::steady_clock::now();
    Turn({}, at_once);
    std::size_t done = 0;
    int open = at_once;
    while (open > 0) {
      const std::vector<UnitRow> ended = TakeEnded();
      done += ended.size();
      const bool over = std::chrono::steady_clock::now() - begin >= span;
      Turn(ended, over ? 0 : static_cast<int>(ended.size()));
      if (over) open -= static_cast<int>(ended.size());
    }
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{} at once: {:.0f} leases/s\n", at_once, static_cast<double>(done) / s);
    const std::lock_guard lock(mutex_);
    Print("  unit submitted to its arrival at the worker", waits_);
  }

 private:
  static std::unique_ptr<Store> OpenStore(const std::filesystem::path& folder) {
    StoreOptions options;
    options.data_dir = folder;
    auto store = Store::Open(std::move(options));
    FETTLE_CHECK(store.ok());
    FETTLE_CHECK(InsertFakeJob(**store, "j1").ok());
    return *std::move(store);
  }

  FakeAnswer Answer(const WorkUnit& unit) {
    const double wait = static_cast<double>(NowNs() - unit.seed) / 1e6;
    {
      const std::lock_guard lock(mutex_);
      waits_.push_back(wait);
    }
    return {.result = MeasuredResult(unit, 1, 1)};
  }

  // The units that have ended since, at least one.
  std::vector<UnitRow> TakeEnded() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ended_.empty(); });
    return std::exchange(ended_, {});
  }

  // One transaction of the owner: stores the ends of units and `more` new ones.
  void Turn(std::vector<UnitRow> ended, int more) {
    std::vector<UnitRow> fresh;
    for (int i = 0; i < more; ++i) {
      UnitRow row;
      row.id = fmt::format("u{}", ++last_);
      row.attempt = 1;
      row.job_id = "j1";
      row.kind = std::string(UnitKindName(UnitKind::kEvaluate));
      row.state = unit_state::kPending;
      row.seed = NowNs();
      row.created_ns = clock_.NowNs();
      fresh.push_back(std::move(row));
    }
    FETTLE_CHECK(store_
                     ->WriteAhead([&](Connection& db) -> absl::Status {
                       for (UnitRow& row : ended) {
                         row.state = unit_state::kDone;
                         row.ended_ns = clock_.NowNs();
                         FETTLE_RETURN_IF_ERROR(UpdateUnit(db, row));
                       }
                       for (const UnitRow& row : fresh) FETTLE_RETURN_IF_ERROR(InsertUnit(db, row));
                       return absl::OkStatus();
                     })
                     .ok());
    for (const UnitRow& row : ended) {
      store_->WhenDurable([this, id = row.id] { dispatcher_.Settle(id); });
    }
    for (UnitRow& row : fresh) {
      UnitTicket ticket;
      ticket.unit.kind = UnitKind::kEvaluate;
      ticket.unit.job_id = "j1";
      ticket.unit.target = "cpu";
      ticket.unit.seed = row.seed;
      ticket.unit.candidate.kernel.source = payload_;
      ticket.row = std::move(row);
      ticket.done = [this](UnitEnd end) {
        {
          const std::lock_guard lock(mutex_);
          ended_.push_back(std::move(end.unit));
        }
        changed_.notify_all();
      };
      dispatcher_.Enqueue(std::move(ticket));
    }
  }

  const std::string payload_ = std::string(20'000, ' ');
  Clock& clock_ = SystemClock();
  std::unique_ptr<Store> store_;
  Executor executor_{"call", 2, 100};
  Dispatcher dispatcher_;
  Access access_{{}};
  WorkerHubService hub_{access_, *store_, dispatcher_, executor_};
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::int64_t last_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<UnitRow> ended_;  // Guarded by mutex_.
  std::vector<double> waits_;   // Guarded by mutex_.
};

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  const std::filesystem::path parent = argc > 1 ? argv[1] : "/tmp";
  const int workers = argc > 2 ? std::atoi(argv[2]) : 6;
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 5;
  std::string folder = (parent / "fettle-leases-XXXXXX").string();
  if (workers < 1 || seconds < 1 || mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "usage: bench_leases [FOLDER [WORKERS [SECONDS]]]\n");
    return 2;
  }
  spdlog::set_level(spdlog::level::warn);
  fettle::PrintSyncs(folder);
  {
    fettle::Bench bench(folder, workers);
    bench.Run(1, std::chrono::seconds(seconds));
    bench.Run(64, std::chrono::seconds(seconds));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
