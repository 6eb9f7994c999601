// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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

// A server on a fresh data folder with list proposers and, when asked for, a fake worker.
class ServerTest : public ::testing::Test {
 protected:
  static constexpr int kCandidates = 8;

  ServerOptions Options() {
    ServerOptions options;
    options.data_dir = folder_.str() + "/data";
    options.version = "test";
    options.proposer_kinds = {"tuner", "list"};
    options.proposers = [this](
                            const std::string& kind, const Task& task, const Target&,
                            const ProposerOptions&) -> absl::StatusOr<std::unique_ptr<Proposer>> {
      return std::make_unique<ListProposer>(kind, task.baseline(), proposals_);
    };
    options.dispatcher.reconnect_grace = std::chrono::milliseconds(50);
    return options;
  }

  void StartServer() { StartServer(Options()); }
  void StartServer(ServerOptions options) {
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = Connect({.endpoint = server_->endpoints().front()});
    stub_ = v1::Optimizer::NewStub(channel_);
  }
  static std::shared_ptr<grpc::Channel> Connect(const EndpointOptions& options) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(options);
    FETTLE_CHECK(channel.ok());
    return *std::move(channel);
  }
  void StartWorker(FakeWorker::Script script, FakeWorkerOptions options = {}) {
    worker_ = std::make_unique<FakeWorker>(Connect({.endpoint = server_->endpoints().front()}),
                                           std::move(options), std::move(script));
  }
  void TearDown() override {
    worker_.reset();
    server_.reset();
  }

  // BLOCK 4 is 1.5 times as fast as the baseline, BLOCK 6 twice; the others are as fast.
  static double SpeedOf(const KernelUnderTest& kernel) {
    const auto block = kernel.values.find("BLOCK");
    if (block == kernel.values.end()) return 1;
    return block->second == 4 ? 1.5 : block->second == 6 ? 2.0 : 1.0;
  }
  static FakeAnswer HonestAnswer(const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
    const double speed = SpeedOf(unit.candidate);
    const double incumbent = unit.incumbent.has_value() ? SpeedOf(*unit.incumbent) : 1;
    return {.result = MeasuredResult(unit, speed / SpeedOf(unit.denominator), speed / incumbent)};
  }

  // Estimates far above the threshold, and blocks that disagree.
  static FakeAnswer Noisy(const WorkUnit& unit, double ratio) {
    UnitResult result = MeasuredResult(unit, ratio, ratio);
    for (CaseMeasurement& one : result.measurement->cases) {
      for (std::size_t i = 0; i < one.block_log_ratios.size(); ++i) {
        one.block_log_ratios[i] += i % 2 == 0 ? 3 : -3;
      }
    }
    return {.result = std::move(result)};
  }

  v1::SubmitJobRequest Request(const std::string& request_id) {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    request.set_task_blob(PackTaskFiles(ScaleTask(kCandidates)));
    request.set_target("cpu");
    request.set_proposer("tuner");
    request.mutable_budget()->set_candidates(100);
    request.set_seed(7);
    return request;
  }
  v1::Job Submit(const v1::SubmitJobRequest& request) {
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    const grpc::Status status = stub_->SubmitJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }
  v1::Job GetJob(const std::string& id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job_id(id);
    v1::GetJobResponse response;
    const grpc::Status status = stub_->GetJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }
  // All events after `after`, until the stream ends. Fails after two minutes: machines may be busy.
  std::vector<v1::JobEvent> Watch(const std::string& id, std::int64_t after = 0,
                                  grpc::Status* ended = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    v1::WatchJobRequest request;
    request.set_job_id(id);
    request.set_after_sequence(after);
    auto reader = stub_->WatchJob(&context, request);
    std::vector<v1::JobEvent> events;
    v1::JobEvent event;
    while (reader->Read(&event)) events.push_back(event);
    const grpc::Status status = reader->Finish();
    if (ended != nullptr) {
      *ended = status;
    } else {
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    return events;
  }
  std::vector<v1::Candidate> Candidates(const std::string& job_id) {
    grpc::ClientContext context;
    v1::ListCandidatesRequest request;
    request.set_job_id(job_id);
    v1::ListCandidatesResponse response;
    EXPECT_TRUE(stub_->ListCandidates(&context, request, &response).ok());
    return {response.candidates().begin(), response.candidates().end()};
  }
  std::vector<v1::Variant> Variants(const std::string& job_id) {
    grpc::ClientContext context;
    v1::ListVariantsRequest request;
    request.set_job_id(job_id);
    v1::ListVariantsResponse response;
    EXPECT_TRUE(stub_->ListVariants(&context, request, &response).ok());
    return {response.variants().begin(), response.variants().end()};
  }
  v1::Variant GetVariant(const std::string& id) {
    grpc::ClientContext context;
    v1::GetVariantRequest request;
    request.set_variant_id(id);
    v1::GetVariantResponse response;
    const grpc::Status status = stub_->GetVariant(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.variant();
  }

  TemporaryFolder folder_;
  int proposals_ = kCandidates;  // Of each list proposer.
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Optimizer::Stub> stub_;
  std::unique_ptr<FakeWorker> worker_;
};

}  // namespace fettle
