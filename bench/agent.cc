// SPDX-License-Identifier: Apache-2.0
// Prints what the agent itself costs, with a model and a worker that answer at once: time per
// round, memory over many rounds, and what jobs cost that wait for a slow model.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include "core/status_macros.h"
#include "fettle/v1/optimizer.grpc.pb.h"
#include "proto/channel.h"
#include "server/server.h"
#include "store/database.h"
#include "tests/fakes/fake_http_server.h"
#include "tests/fakes/fake_results.h"
#include "tests/fakes/fake_worker.h"
#include "tests/fakes/model_answers.h"
#include "tests/fakes/scale_task.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

double Seconds(SteadyClock::duration span) { return std::chrono::duration<double>(span).count(); }

double ResidentMiB() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

// What is in use of the heap.
double AllocatedMiB() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Bench {
 public:
  Bench() {
    model_.ForgetRequests();
    ServerOptions options;
    options.data_dir = folder_.str() + "/data";
    options.models_file = folder_.str() + "/models.json";
    const json price = {{"input", 0}, {"output", 0}, {"cache_read", 0}, {"cache_write", 0}};
    const json model = {{"provider", "anthropic"},
                        {"base_url", model_.url()},
                        {"context_tokens", 200'000},
                        {"max_output_tokens", 4'000},
                        {"usd_per_million", price}};
    std::ofstream(options.models_file)
        << json{{"format", 1}, {"default", "m"}, {"models", {{"m", model}}}}.dump();
    auto server = Server::Start(std::move(options));
    FETTLE_CHECK(server.ok());
    server_ = *std::move(server);
    auto channel = OpenChannel({.endpoint = server_->endpoints().front()});
    FETTLE_CHECK(channel.ok());
    stub_ = v1::Optimizer::NewStub(*channel);
    worker_ = std::make_unique<FakeWorker>(*channel, FakeWorkerOptions{}, [](const WorkUnit& unit) {
      if (unit.kind == UnitKind::kRegister) return FakeAnswer{.result = PassedRegistration(unit)};
      return FakeAnswer{.result = MeasuredResult(unit, 1, 1)};
    });
  }

  // Two answers a round, each with a kernel of its own.
  void AnswerAtOnce() {
    model_.Respond([this](const std::string& request) {
      if (ModelAnswers::AsksForPlan(request)) {
        return answers_.Plan(fmt::format("technique-{}", number_.load()));
      }
      return answers_.Call(
          "propose", {{"source", ScaleTask(1)["kernel.cu"] + fmt::format("int v{};\n", ++number_)},
                      {"rationale", "because"}});
    });
  }
  void Stall() {
    model_.Play({{{StreamHead(), FakeHttpServer::Piece::After::kStall}}});
    model_.Respond(nullptr);
  }

  std::string Submit(std::int64_t candidates) {
    v1::SubmitJobRequest request;
    request.set_task_blob(PackTaskFiles(ScaleTask(1)));
    request.set_target("cpu");
    request.set_proposer("llm");
    request.mutable_budget()->set_candidates(candidates);
    request.set_options_json("{\"plateau\": 0}");
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    FETTLE_CHECK(stub_->SubmitJob(&context, request, &response).ok());
    return response.job().id();
  }
  v1::Job Job(const std::string& id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job_id(id);
    v1::GetJobResponse response;
    FETTLE_CHECK(stub_->GetJob(&context, request, &response).ok());
    return response.job();
  }
  // Milliseconds of a round that went to evaluating, from proposal to verdict, and of the others,
  // from that verdict to the next proposal: means over the candidates after the first `skipped`.
  std::pair<double, double> Shares(const std::string& id, std::int64_t skipped) {
    auto db = Connection::Open(folder_.str() + "/data/fettle.db", Connection::Mode::kReadOnly);
    FETTLE_CHECK(db.ok());
    auto select = db->Prepare(
        "SELECT created_ns, judged_ns FROM candidates WHERE job_id = ? AND stage = 'search' AND "
        "judged_ns > 0 ORDER BY ordinal");
    FETTLE_CHECK(select.ok());
    select->Bind(1, std::string_view(id));
    double evaluating = 0, between = 0;
    std::int64_t judged = 0, count = 0, seen = 0;
    for (auto row = select->Step(); row.ok() && *row; row = select->Step()) {
      if (++seen > skipped + 1) {
        evaluating += static_cast<double>(select->Int64(1) - select->Int64(0)) * 1e-6;
        between += static_cast<double>(select->Int64(0) - judged) * 1e-6;
        ++count;
      }
      judged = select->Int64(1);
    }
    const double rounds = static_cast<double>(std::max<std::int64_t>(count, 1));
    return {evaluating / rounds, between / rounds};
  }
  void AwaitCandidates(const std::string& id, std::int64_t count) {
    while (Job(id).candidate_count() < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  TemporaryFolder folder_;
  FakeHttpServer model_;
  ModelAnswers answers_;
  std::atomic<int> number_ = 0;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Optimizer::Stub> stub_;
  std::unique_ptr<FakeWorker> worker_;
};

void Rounds(int rounds) {
  Bench bench;
  bench.AnswerAtOnce();
  const std::string id = bench.Submit(rounds);
  const int warm = std::min(100, rounds / 4);
  bench.AwaitCandidates(id, warm);
  const double before = ResidentMiB();
  const double processor = ProcessorSeconds();
  const auto begin = SteadyClock::now();
  const std::int64_t first = bench.Job(id).candidate_count();
  struct Sample {
    int rounds;
    double resident, allocated;  // MiB.
  };
  std::vector<Sample> samples = {{warm, before, AllocatedMiB()}};
  for (const int part : {rounds / 4, rounds / 2, rounds * 3 / 4, rounds}) {
    bench.AwaitCandidates(id, part);
    samples.push_back({part, ResidentMiB(), AllocatedMiB()});
  }
  const double counted = static_cast<double>(rounds - first);
  std::printf(
      "%.1f ms a round (%d rounds; two answers of the model, one evaluation, both at once)\n",
      1000 * Seconds(SteadyClock::now() - begin) / counted, rounds);
  std::printf("%.1f ms of processor a round, the stand-ins for model and worker included\n",
              1000 * (ProcessorSeconds() - processor) / counted);
  const auto [evaluating, between] = bench.Shares(id, first);
  std::printf(
      "of a round, %.1f ms from a proposal to its verdict and %.1f ms from there to the next "
      "proposal\n",
      evaluating, between);
  std::printf("MiB resident, and of it allocated, after rounds:");
  for (const Sample& sample : samples) {
    std::printf(" %d: %.1f, %.2f;", sample.rounds, sample.resident, sample.allocated);
  }
  malloc_trim(0);
  std::printf(" resident without what the allocator kept for later: %.1f\n", ResidentMiB());
}

void Waiting(int jobs) {
  Bench bench;
  bench.Stall();
  const double before = ResidentMiB();
  std::vector<std::string> ids;
  for (int i = 0; i < jobs; ++i) ids.push_back(bench.Submit(10));
  for (const std::string& id : ids) {
    while (bench.Job(id).spent().tokens() == 0) {  // Reserved: its call is in flight.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  constexpr int kWatched = 10;
  const double processor = ProcessorSeconds();
  std::this_thread::sleep_for(std::chrono::seconds(kWatched));
  std::printf(
      "%d jobs that wait for a model: %.1f MiB in all (%.1f before), %.1f %% of a processor\n",
      jobs, ResidentMiB(), before, 100 * (ProcessorSeconds() - processor) / kWatched);
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  CLI::App app("What the agent costs beside its model and its worker.");
  int rounds = 1000;
  int jobs = 100;
  app.add_option("--rounds", rounds, "rounds of one job");
  app.add_option("--jobs", jobs, "jobs that wait at once");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::err);
  fettle::Rounds(rounds);
  fettle::Waiting(jobs);
  return 0;
}
