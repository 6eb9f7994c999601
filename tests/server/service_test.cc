// SPDX-License-Identifier: Apache-2.0
// The service's edges: validation, watching, access, shutdown, calls outside jobs.

#include <cstdlib>
#include <future>
#include <latch>
#include <thread>

#include <sys/stat.h>

#include "core/digest.h"
#include "fettle/v1/worker.grpc.pb.h"
#include "proto/wire_json.h"
#include "store/files.h"
#include "store/fleet_store.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

class ServiceTest : public ServerTest {
 protected:
  grpc::Status TrySubmit(const v1::SubmitJobRequest& request) {
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    return stub_->SubmitJob(&context, request, &response);
  }
  static FakeAnswer HoldAll(const WorkUnit&) { return {}; }
};

TEST_F(ServiceTest, NamesTheBadField) {
  StartServer();
  const auto expect = [&](const std::function<void(v1::SubmitJobRequest&)>& change,
                          const std::string& field) {
    v1::SubmitJobRequest request = Request("");
    change(request);
    const grpc::Status status = TrySubmit(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_EQ(status.error_message().rfind(field, 0), 0U) << status.error_message();
    EXPECT_LE(status.error_message().size(), 1024U);
  };
  expect([](auto& r) { r.set_task_blob(""); }, "task_blob");
  expect([](auto& r) { r.set_task_blob("not a task"); }, "task_blob");
  expect(
      [](auto& r) {
        r.set_task_blob(PackTaskFiles({{"task.yaml", "format: 1\n"}}));
      },
      "task_blob");
  expect([](auto& r) { r.set_target("sm_13"); }, "target");
  expect([](auto& r) { r.set_proposer("oracle"); }, "proposer");
  expect([](auto& r) { r.mutable_budget()->set_candidates(0); }, "budget");
  expect([](auto& r) { r.mutable_budget()->set_candidates(-1); }, "budget.candidates");
  expect([](auto& r) { r.mutable_budget()->set_usd(-0.5); }, "budget.usd");
  expect([](auto& r) { r.set_options_json("[]"); }, "options_json");
  expect([](auto& r) { r.set_options_json("{\"platoo\": 3}"); }, "options_json.platoo");
  expect([](auto& r) { r.set_request_id(std::string(201, 'x')); }, "request_id");
}

TEST_F(ServiceTest, UnknownIdsAreNotFound) {
  StartServer();
  grpc::Status ended;
  EXPECT_TRUE(Watch("j000", 0, &ended).empty());
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::NOT_FOUND);
  Watch("j000", -1, &ended);
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  v1::GetVariantRequest request;
  request.set_variant_id("v000");
  v1::GetVariantResponse response;
  EXPECT_EQ(stub_->GetVariant(&context, request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, WatchResumesAtAnySequence) {
  StartServer();
  StartWorker(HonestAnswer);
  const v1::Job job = Submit(Request("r1"));
  const std::vector<v1::JobEvent> all = Watch(job.id());
  const auto last = static_cast<std::int64_t>(all.size());
  for (const std::int64_t after : {std::int64_t{1}, std::int64_t{5}, last - 1}) {
    const std::vector<v1::JobEvent> rest = Watch(job.id(), after);
    ASSERT_EQ(static_cast<std::int64_t>(rest.size()), last - after);
    EXPECT_EQ(rest.front().sequence(), after + 1);
  }
  EXPECT_TRUE(Watch(job.id(), last).empty());        // At the terminal event: OK at once.
  EXPECT_TRUE(Watch(job.id(), last + 100).empty());  // After it, likewise.
}

TEST_F(ServiceTest, PagesThroughCandidatesAndEvents) {
  StartServer();
  StartWorker(HonestAnswer);
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  std::vector<std::int64_t> ordinals;
  v1::ListCandidatesRequest request;
  request.set_job_id(job.id());
  request.set_page_size(3);
  do {
    grpc::ClientContext context;
    v1::ListCandidatesResponse response;
    ASSERT_TRUE(stub_->ListCandidates(&context, request, &response).ok());
    for (const v1::Candidate& candidate : response.candidates()) {
      ordinals.push_back(candidate.ordinal());
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(ordinals, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));

  request.set_page_token("");
  request.set_verdict("WIN");
  grpc::ClientContext context;
  v1::ListCandidatesResponse wins;
  ASSERT_TRUE(stub_->ListCandidates(&context, request, &wins).ok());
  ASSERT_EQ(wins.candidates_size(), 2);

  grpc::ClientContext get;
  v1::GetCandidateRequest one;
  one.set_job_id(job.id());
  one.set_digest(wins.candidates(0).digest().substr(0, 12));
  v1::GetCandidateResponse got;
  ASSERT_TRUE(stub_->GetCandidate(&get, one, &got).ok());
  EXPECT_EQ(got.candidate().rationale(), "the next one");
  EXPECT_TRUE(nlohmann::json::parse(got.candidate().kernel_json()).contains("source"));
  EXPECT_TRUE(nlohmann::json::parse(got.candidate().measurement_json()).contains("cases"));

  grpc::ClientContext bad;
  request.set_page_token("nonsense");
  EXPECT_EQ(stub_->ListCandidates(&bad, request, &wins).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, ChecksAndTriesOutsideAnyJob) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) {
      return FakeAnswer{.result = RefusedRegistration(unit, "accepts_zeros")};
    }
    return HonestAnswer(unit);
  });
  ASSERT_TRUE([&] {  // Until the worker is known.
    for (int i = 0; i < 1'000; ++i) {
      grpc::ClientContext context;
      v1::ListWorkersResponse response;
      if (stub_->ListWorkers(&context, {}, &response).ok() && response.workers_size() == 1) {
        return response.workers(0).id() == "fake-1";
      }
    }
    return false;
  }());
  {
    grpc::ClientContext context;
    v1::CheckTaskRequest request;
    request.set_task_blob(PackTaskFiles(ScaleTask(2)));
    request.set_target("cpu");
    v1::CheckTaskResponse response;
    const grpc::Status status = stub_->CheckTask(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(response.passed());
    EXPECT_NE(response.report_json().find("accepts_zeros"), std::string::npos);
  }
  v1::TryKernelRequest request;
  request.set_task_blob(PackTaskFiles(ScaleTask(2)));
  request.set_target("auto");
  request.set_measure(true);
  v1::TryKernelResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->TryKernel(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const auto result = nlohmann::json::parse(response.result_json());
    EXPECT_TRUE(result.contains("measurement"));
    EXPECT_FALSE(result["verification"].contains("seeds"));
  }
  request.set_target("gfx950");
  grpc::ClientContext context;
  const grpc::Status refused = stub_->TryKernel(&context, request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  // The server's own words, not those about a server that does not answer.
  EXPECT_EQ(FromGrpcStatus(refused, "here").message(), refused.error_message());
  EXPECT_NE(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "refused"}, "here").message(),
            "refused");
}

TEST_F(ServiceTest, AnEmulatedDeviceIsUsedOnlyWhereItsTargetIsNamed) {
  StartServer();
  StartWorker(HonestAnswer, {.target = "gfx950", .model = "MI350X, emulated", .emulated = true});
  v1::TryKernelRequest request;
  request.set_task_blob(PackTaskFiles(ScaleTask(2)));
  request.set_target("gfx950");
  v1::TryKernelResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->TryKernel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  request.set_target("auto");
  grpc::ClientContext context;
  EXPECT_EQ(stub_->TryKernel(&context, request, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, GivingUpACallTellsTheWorker) {
  StartServer();
  StartWorker(HoldAll);
  grpc::ClientContext context;
  v1::TryKernelRequest request;
  request.set_task_blob(PackTaskFiles(ScaleTask(2)));
  request.set_target("cpu");
  v1::TryKernelResponse response;
  auto call = std::async(std::launch::async,
                         [&] { return stub_->TryKernel(&context, request, &response); });
  ASSERT_TRUE(worker_->WaitForLeases(1));
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  for (int i = 0; i < 10'000 && worker_->cancelled() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(worker_->cancelled(), 1U);
}

TEST_F(ServiceTest, ShutsDownWithinTwoSecondsWithEverythingOpen) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    return unit.kind == UnitKind::kRegister ? HonestAnswer(unit) : FakeAnswer{};
  });
  const v1::Job job = Submit(Request("r1"));
  ASSERT_TRUE(worker_->WaitForLeases(2));
  constexpr int kWatches = 16;
  std::latch open(kWatches);
  std::vector<std::future<grpc::Status>> watches;
  for (int i = 0; i < kWatches; ++i) {
    watches.push_back(std::async(std::launch::async, [this, &job, &open] {
      grpc::ClientContext context;
      v1::WatchJobRequest request;
      request.set_job_id(job.id());
      auto reader = stub_->WatchJob(&context, request);
      v1::JobEvent event;
      EXPECT_TRUE(reader->Read(&event));
      open.count_down();
      while (reader->Read(&event)) {
      }
      return reader->Finish();
    }));
  }
  open.wait();
  auto call = std::async(std::launch::async, [this] {
    grpc::ClientContext context;
    v1::TryKernelRequest request;
    request.set_task_blob(PackTaskFiles(ScaleTask(2)));
    request.set_target("cpu");
    v1::TryKernelResponse response;
    return stub_->TryKernel(&context, request, &response);
  });
  const auto begin = std::chrono::steady_clock::now();
  server_->Shutdown();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  for (auto& watch : watches) {
    EXPECT_EQ(watch.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_FALSE(call.get().ok());  // Whether it had arrived by then or not.
}

// The server reads the request on another thread; what the client gave up must live until that is
// done.
TEST_F(ServiceTest, CallsMayBeGivenUpWhileTheyArePrepared) {
  StartServer();
  StartWorker(HonestAnswer);
  for (int i = 0; i < 300; ++i) {
    grpc::ClientContext context;
    std::thread quitter([&context, i] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 20));
      context.TryCancel();
    });
    v1::TryKernelRequest request;
    request.set_task_blob(PackTaskFiles(ScaleTask(2)));
    request.set_target("cpu");
    v1::TryKernelResponse response;
    stub_->TryKernel(&context, request, &response);
    quitter.join();
  }
  EXPECT_EQ(GetJob(Submit(Request("r1")).id()).task_name(), "scale");
}

TEST_F(ServiceTest, ASecondServerOnTheFolderOrSocketIsRefused) {
  StartServer();
  const auto folder = Server::Start(Options());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kUnavailable);
  ServerOptions other = Options();
  other.socket_path = other.data_dir + "/fettle.sock";
  other.data_dir = folder_.str() + "/other";
  const auto socket = Server::Start(other);
  EXPECT_EQ(socket.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(StatusText(socket.status()).find("another server answers"), std::string::npos);
  EXPECT_EQ(GetJob(Submit(Request("r1")).id()).state(), v1::JOB_STATE_QUEUED);
}

TEST_F(ServiceTest, TheSocketIsItsOwnersAndAStaleOneIsReplaced) {
  StartServer();
  struct stat info {};
  const std::string socket = folder_.str() + "/data/fettle.sock";
  ASSERT_EQ(stat(socket.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  server_.reset();
  EXPECT_NE(stat(socket.c_str(), &info), 0);
}

TEST_F(ServiceTest, BeyondLoopbackNeedsTls) {
  ServerOptions options = Options();
  options.listen = {"0.0.0.0:0"};
  const auto refused = Server::Start(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(StatusText(refused.status()).find("TLS"), std::string::npos);
}

TEST_F(ServiceTest, PortsAreNumbers) {
  for (const char* listen : {"127.0.0.1:99999", "localhost:65536", "127.0.0.1:-1", "127.0.0.1:x"}) {
    ServerOptions options = Options();
    options.listen = {listen};
    const auto refused = Server::Start(options);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << listen;
    EXPECT_NE(StatusText(refused.status()).find("65535"), std::string::npos);
  }
}

TEST_F(ServiceTest, TcpNeedsATokenOfTheRightRole) {
  ServerOptions options = Options();
  options.listen = {"127.0.0.1:0"};
  const std::string data = options.data_dir;
  ASSERT_TRUE(MakeFolder(data).ok());
  ASSERT_TRUE(
      WriteFileDurably(
          data + "/tokens.json",
          nlohmann::json{{"tokens",
                          {{{"name", "r"}, {"role", "read"}, {"token", "tr"}},
                           {{"name", "p"}, {"role", "propose"}, {"token", "tp"}},
                           {{"name", "o"}, {"role", "operate"}, {"sha256", Sha256Hex("to")}},
                           {{"name", "w"}, {"role", "worker"}, {"token", "tw"}}}}}
              .dump())
          .ok());
  StartServer(options);
  const std::string endpoint = server_->endpoints().at(1);
  const auto codes = [&](const std::string& token) {
    const auto channel = Connect({.endpoint = endpoint, .token = token});
    const auto stub = v1::Optimizer::NewStub(channel);
    std::vector<int> out;
    {
      grpc::ClientContext context;
      v1::ListJobsResponse response;
      out.push_back(stub->ListJobs(&context, {}, &response).error_code());
    }
    {
      grpc::ClientContext context;
      v1::CheckTaskResponse response;
      out.push_back(stub->CheckTask(&context, {}, &response).error_code());
    }
    {
      grpc::ClientContext context;
      v1::SubmitJobResponse response;
      out.push_back(stub->SubmitJob(&context, {}, &response).error_code());
    }
    {
      grpc::ClientContext context;
      v1::HasBlobsResponse response;
      out.push_back(
          v1::WorkerHub::NewStub(channel)->HasBlobs(&context, {}, &response).error_code());
    }
    {
      grpc::ClientContext context;
      auto stream = v1::WorkerHub::NewStub(channel)->Connect(&context);
      v1::WorkerMessage hello;
      hello.mutable_hello()->set_worker_id("");
      stream->Write(hello);
      v1::ServerMessage message;
      while (stream->Read(&message)) {
      }
      out.push_back(stream->Finish().error_code());
    }
    return out;
  };
  // INVALID_ARGUMENT (3) and UNAVAILABLE (14, a bad Hello) mean that the call was let through.
  constexpr int kOk = 0, kBad = 3, kDenied = 7, kClosed = 14, kUnknown = 16;
  EXPECT_EQ(codes("tr"), (std::vector<int>{kOk, kDenied, kDenied, kDenied, kDenied}));
  EXPECT_EQ(codes("tp"), (std::vector<int>{kOk, kBad, kDenied, kDenied, kDenied}));
  EXPECT_EQ(codes("to"), (std::vector<int>{kOk, kBad, kBad, kDenied, kDenied}));
  EXPECT_EQ(codes("tw"), (std::vector<int>{kDenied, kDenied, kDenied, kOk, kClosed}));
  EXPECT_EQ(codes("forged"), (std::vector<int>{kUnknown, kUnknown, kUnknown, kUnknown, kUnknown}));
}

TEST_F(ServiceTest, TlsProtectsTcpAndIsNeededToReachIt) {
  const std::string certificate = folder_.str() + "/cert.pem", key = folder_.str() + "/key.pem";
  const std::string make = fmt::format(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=fettle.test -addext subjectAltName=DNS:fettle.test,IP:127.0.0.1 "
      "-keyout '{}' -out '{}' >/dev/null 2>&1 && chmod 600 '{}'",
      key, certificate, key);
  ASSERT_EQ(std::system(make.c_str()), 0) << "openssl could not make a certificate";
  ServerOptions options = Options();
  options.listen = {"127.0.0.1:0"};
  options.tls_certificate_file = certificate;
  options.tls_key_file = key;
  StartServer(options);
  const std::string endpoint = server_->endpoints().at(1);
  const std::string token_file = options.data_dir + "/operate.token";
  const auto code = [](const EndpointOptions& how) {
    const auto resolved = ResolveEndpoint(how);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    const auto channel = OpenChannel(*resolved);
    EXPECT_TRUE(channel.ok()) << channel.status();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetServerInfoRequest request;
    v1::GetServerInfoResponse response;
    return v1::Optimizer::NewStub(*channel)
        ->GetServerInfo(&context, request, &response)
        .error_code();
  };
  EXPECT_EQ(code({.endpoint = endpoint, .token_file = token_file, .ca_file = certificate}),
            grpc::StatusCode::OK);
  EXPECT_EQ(code({.endpoint = endpoint,
                  .token_file = token_file,
                  .ca_file = certificate,
                  .server_name = "fettle.test"}),
            grpc::StatusCode::OK);
  // A name that the certificate does not have, no TLS, and a wrong token.
  EXPECT_EQ(code({.endpoint = endpoint,
                  .token_file = token_file,
                  .ca_file = certificate,
                  .server_name = "other.test"}),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(code({.endpoint = endpoint, .token_file = token_file}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(code({.endpoint = endpoint, .token = "wrong", .ca_file = certificate}),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ServiceTest, MakesTokensWhenThereAreNone) {
  ServerOptions options = Options();
  options.listen = {"localhost:0"};
  StartServer(options);
  const auto token = ReadSecretFile(options.data_dir + "/operate.token");
  ASSERT_TRUE(token.ok()) << token.status();
  absl::StatusOr<EndpointOptions> resolved = ResolveEndpoint(
      {.endpoint = server_->endpoints().at(1), .token_file = options.data_dir + "/operate.token"});
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto stub = v1::Optimizer::NewStub(Connect(*resolved));
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  const grpc::Status status = stub->GetServerInfo(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.version(), "test");
  EXPECT_FALSE(response.data_dir_id().empty());
}

TEST_F(ServiceTest, BlobsTravelBothWaysUnderTheirDigest) {
  StartServer();
  const auto hub = v1::WorkerHub::NewStub(channel_);
  const std::string bytes(3'000'000, 'b');
  const auto upload = [&](const std::string& digest) {
    grpc::ClientContext context;
    v1::StoreBlobResponse response;
    auto writer = hub->StoreBlob(&context, &response);
    for (std::size_t at = 0; at < bytes.size(); at += 1'000'000) {
      v1::BlobChunk chunk;
      chunk.set_data(bytes.substr(at, 1'000'000));
      if (at + 1'000'000 >= bytes.size()) chunk.set_sha256(digest);
      writer->Write(chunk);
    }
    writer->WritesDone();
    return writer->Finish().error_code();
  };
  EXPECT_EQ(upload(Sha256Hex("other")), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(upload(""), grpc::StatusCode::INVALID_ARGUMENT);
  const std::string digest = Sha256Hex(bytes);
  {
    grpc::ClientContext context;
    v1::HasBlobsRequest request;
    request.add_digests(digest);
    v1::HasBlobsResponse response;
    ASSERT_TRUE(hub->HasBlobs(&context, request, &response).ok());
    EXPECT_EQ(response.missing_size(), 1);
  }
  EXPECT_EQ(upload(digest), grpc::StatusCode::OK);
  grpc::ClientContext context;
  v1::ReadBlobRequest request;
  request.set_digest(digest);
  auto reader = hub->FetchBlob(&context, request);
  std::string got;
  v1::BlobChunk chunk;
  while (reader->Read(&chunk)) got += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(chunk.sha256(), digest);
}

TEST_F(ServiceTest, AnExportOfNothingSaysSo) {
  StartServer();
  const auto code = [&](const v1::ExportBundleRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->ExportBundle(&context, request);
    v1::BlobChunk chunk;
    while (reader->Read(&chunk)) {
    }
    return reader->Finish().error_code();
  };
  v1::ExportBundleRequest request;
  EXPECT_EQ(code(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_task_name("scale");
  EXPECT_EQ(code(request), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, SaysHowLongDevicesWereHeldForAJob) {
  StartServer();
  StartWorker(HonestAnswer);
  const std::string id = Submit(Request("held devices")).id();
  Watch(id);
  EXPECT_FALSE(GetJob(id).has_device_use()) << "no batch system placed its worker";
  worker_.reset();
  server_.reset();
  {
    const auto store = Store::Open({.data_dir = folder_.str() + "/data"});
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)
                    ->Write([&](Connection& db) -> absl::Status {
                      FETTLE_RETURN_IF_ERROR(PutAllocation(db, id, "7_0", 2, 1'800, 1));
                      return PutAllocation(db, id, "8_0", /*devices=*/0, 1'800, 1);
                    })
                    .ok());
  }
  StartServer();
  const v1::Job job = GetJob(id);
  ASSERT_TRUE(job.has_device_use());
  EXPECT_GT(job.spent().device_ms(), 0);
  EXPECT_EQ(job.device_use().allocated_s(), 3'600);
  EXPECT_EQ(job.device_use().useful_s(), static_cast<double>(job.spent().device_ms()) / 1000);
  EXPECT_EQ(job.device_use().idle_s(), 3'600 - job.device_use().useful_s());
  EXPECT_NE(job.message().find("held 1.00 device-hours"), std::string::npos) << job.message();
  EXPECT_EQ(ToJson(job)["device_use"]["allocated_s"], 3'600);
}

}  // namespace
}  // namespace fettle
