// SPDX-License-Identifier: Apache-2.0
// Prints what the server itself costs, with a worker that answers at once: submit to first event,
// submit to first lease, time per candidate, and memory with many stored candidates.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "fettle/v1/optimizer.grpc.pb.h"
#include "proto/channel.h"
#include "server/server.h"
#include "tests/fakes/fake_results.h"
#include "tests/fakes/fake_worker.h"
#include "tests/fakes/list_proposer.h"
#include "tests/fakes/scale_task.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using SteadyClock = std::chrono::steady_clock;

double Milliseconds(SteadyClock::duration span) {
  return std::chrono::duration<double, std::milli>(span).count();
}

double Percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
}

double ResidentMiB() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

FakeAnswer AnswerAtOnce(const WorkUnit& unit) {
  if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
  return {.result = MeasuredResult(unit, 1, 1)};
}

class Bench {
 public:
  explicit Bench(int candidates) : candidates_(candidates) {
    ServerOptions options;
    options.data_dir = folder_.str() + "/data";
    options.proposers = [this](
                            const std::string& kind, const Task& task, const Target&,
                            const ProposerOptions&) -> absl::StatusOr<std::unique_ptr<Proposer>> {
      return std::make_unique<ListProposer>(kind, task.baseline(), candidates_);
    };
    auto server = Server::Start(std::move(options));
    if (!server.ok()) fmt::print(stderr, "{}\n", StatusText(server.status()));
    FETTLE_CHECK(server.ok());
    server_ = *std::move(server);
    channel_ = *OpenChannel({.endpoint = server_->endpoints().front()});
    stub_ = v1::Optimizer::NewStub(channel_);
  }

  void SubmitLatencies(int jobs) {
    std::vector<double> first_event;
    for (int i = 0; i < jobs; ++i) {
      const auto begin = SteadyClock::now();
      const std::string id = Submit();
      grpc::ClientContext context;
      v1::WatchJobRequest request;
      request.set_job_id(id);
      auto reader = stub_->WatchJob(&context, request);
      v1::JobEvent event;
      FETTLE_CHECK(reader->Read(&event));
      first_event.push_back(Milliseconds(SteadyClock::now() - begin));
      context.TryCancel();
      reader->Finish();
      Cancel(id);
    }
    fmt::print("submit to first event, {} jobs: p50 {:.2f} ms, p99 {:.2f} ms\n", jobs,
               Percentile(first_event, 0.5), Percentile(first_event, 0.99));
  }

  void LeaseLatencies(int calls) {
    FakeWorker worker(*OpenChannel({.endpoint = server_->endpoints().front()}), {.slots = 2},
                      AnswerAtOnce);
    WaitForWorker();
    std::vector<double> spans;
    for (int i = 0; i < calls; ++i) {
      const auto begin = SteadyClock::now();
      grpc::ClientContext context;
      v1::TryKernelRequest request;
      request.set_task_blob(PackTaskFiles(ScaleTask(4)));
      request.set_target("cpu");
      v1::TryKernelResponse response;
      FETTLE_CHECK(stub_->TryKernel(&context, request, &response).ok());
      spans.push_back(Milliseconds(SteadyClock::now() - begin));
    }
    fmt::print(
        "request, lease, result, answer of one unit, {} calls: p50 {:.2f} ms, p99 {:.2f} ms\n",
        calls, Percentile(spans, 0.5), Percentile(spans, 0.99));
  }

  void WholeJob() {
    FakeWorker worker(*OpenChannel({.endpoint = server_->endpoints().front()}), {.slots = 2},
                      AnswerAtOnce);
    WaitForWorker();
    const double before = ResidentMiB();
    const auto begin = SteadyClock::now();
    const std::string id = Submit();
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_job_id(id);
    auto reader = stub_->WatchJob(&context, request);
    v1::JobEvent event;
    std::int64_t events = 0;
    while (reader->Read(&event)) ++events;
    FETTLE_CHECK(reader->Finish().ok());
    const double ms = Milliseconds(SteadyClock::now() - begin);
    fmt::print(
        "job of {} candidates ({} events): {:.2f} ms per candidate with durable leases and "
        "results\n",
        candidates_, events, ms / candidates_);
    fmt::print(
        "resident memory of server, client and worker in one process: {:.0f} MiB before, "
        "{:.0f} MiB with {} stored candidates\n",
        before, ResidentMiB(), candidates_);
  }

 private:
  std::string Submit() {
    grpc::ClientContext context;
    v1::SubmitJobRequest request;
    // A tunable has at most 4,096 values; the proposer here goes beyond what the task lists.
    request.set_task_blob(PackTaskFiles(ScaleTask(4)));
    request.set_target("cpu");
    request.set_proposer("tuner");
    request.set_options_json("{\"plateau\": 0}");
    request.mutable_budget()->set_candidates(candidates_);
    v1::SubmitJobResponse response;
    const grpc::Status status = stub_->SubmitJob(&context, request, &response);
    if (!status.ok()) fmt::print(stderr, "{}\n", status.error_message());
    FETTLE_CHECK(status.ok());
    return response.job().id();
  }
  void Cancel(const std::string& id) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job_id(id);
    v1::CancelJobResponse response;
    FETTLE_CHECK(stub_->CancelJob(&context, request, &response).ok());
  }
  void WaitForWorker() {
    while (true) {
      grpc::ClientContext context;
      v1::ListWorkersResponse response;
      FETTLE_CHECK(stub_->ListWorkers(&context, {}, &response).ok());
      if (response.workers_size() > 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const int candidates_;
  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Optimizer::Stub> stub_;
};

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  const int candidates = argc > 1 ? std::atoi(argv[1]) : 10'000;
  if (candidates < 1) {
    fmt::print(stderr, "usage: bench_server [CANDIDATES]\n");
    return 2;
  }
  spdlog::set_level(spdlog::level::warn);
  fettle::Bench bench(candidates);
  bench.SubmitLatencies(50);
  bench.LeaseLatencies(200);
  bench.WholeJob();
  return 0;
}
