// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_client.h"

#include <filesystem>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/digest.h"
#include "fettle/v1/worker.grpc.pb.h"
#include "tests/fakes/captured_log.h"
#include "worker/unit_device_time.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong{20};

// A hub that leases what it is given and records what comes back.
class FakeHub final : public v1::WorkerHub::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>;

  grpc::Status Connect(grpc::ServerContext*, Stream* stream) override {
    v1::WorkerMessage message;
    if (!stream->Read(&message) || !message.has_hello()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no hello"};
    }
    {
      const std::lock_guard lock(mutex);
      hellos.push_back(message.hello());
      if (refuse) return {grpc::StatusCode::UNAUTHENTICATED, "bad token"};
      v1::ServerMessage welcome;
      welcome.mutable_welcome()->set_heartbeat_ms(50);
      stream->Write(welcome);
      stream_ = stream;
    }
    changed.notify_all();
    while (stream->Read(&message)) {
      const std::lock_guard lock(mutex);
      Handle(message, *stream);
      changed.notify_all();
      if (hang_up) {
        hang_up = false;
        break;
      }
    }
    const std::lock_guard lock(mutex);
    stream_ = nullptr;
    changed.notify_all();
    return {grpc::StatusCode::UNAVAILABLE, "bye"};
  }

  void Handle(const v1::WorkerMessage& message, Stream& stream) {
    if (message.has_unit_done()) done.push_back(message.unit_done());
    if (message.has_unit_returned()) returned.push_back(message.unit_returned());
    if (message.has_heartbeat()) {
      ++heartbeats;
      last_state = message.heartbeat().state_json();
    }
    if (message.has_draining()) ++drains;
    const bool outcome = message.has_unit_done() || message.has_unit_returned();
    if (!outcome || !acknowledge) return;
    v1::ServerMessage ack;
    ack.mutable_ack()->set_unit_id(message.has_unit_done() ? message.unit_done().unit_id()
                                                           : message.unit_returned().unit_id());
    ack.mutable_ack()->set_attempt(message.has_unit_done() ? message.unit_done().attempt()
                                                           : message.unit_returned().attempt());
    stream.Write(ack);
  }

  grpc::Status FetchBlob(grpc::ServerContext*, const v1::ReadBlobRequest* request,
                         grpc::ServerWriter<v1::BlobChunk>* writer) override {
    const std::lock_guard lock(mutex);
    ++fetches;
    const auto found = blobs.find(request->digest());
    if (found == blobs.end()) return {grpc::StatusCode::NOT_FOUND, "no such blob"};
    v1::BlobChunk chunk;
    chunk.set_data(damage_next ? "damaged" : found->second);
    damage_next = false;
    chunk.set_sha256(request->digest());
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status HasBlobs(grpc::ServerContext*, const v1::HasBlobsRequest* request,
                        v1::HasBlobsResponse* response) override {
    const std::lock_guard lock(mutex);
    for (const std::string& digest : request->digests()) {
      if (!blobs.contains(digest)) response->add_missing(digest);
    }
    return grpc::Status::OK;
  }
  grpc::Status StoreBlob(grpc::ServerContext*, grpc::ServerReader<v1::BlobChunk>* reader,
                         v1::StoreBlobResponse* response) override {
    std::string bytes;
    v1::BlobChunk chunk;
    while (reader->Read(&chunk)) bytes += chunk.data();
    const std::lock_guard lock(mutex);
    uploads.push_back(std::chrono::steady_clock::now());
    changed.notify_all();
    if (full) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no space left"};
    response->set_digest(Sha256Hex(bytes));
    blobs[response->digest()] = bytes;
    return grpc::Status::OK;
  }

  void Lease(const WorkUnit& unit) {
    v1::ServerMessage message;
    message.mutable_lease()->set_unit_json(ToJson(unit).dump());
    message.mutable_lease()->set_deadline_ms(60'000);
    Send(message);
  }
  void Send(const v1::ServerMessage& message) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kLong, [this] { return stream_ != nullptr; }));
    stream_->Write(message);
  }
  template <typename Predicate>
  bool Wait(Predicate predicate) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kLong, predicate);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<v1::Hello> hellos;
  std::vector<v1::UnitDone> done;
  std::vector<v1::UnitReturned> returned;
  std::map<std::string, std::string> blobs;
  std::vector<std::chrono::steady_clock::time_point> uploads;
  std::string last_state;
  int heartbeats = 0, drains = 0, fetches = 0;
  bool acknowledge = true, hang_up = false, refuse = false, damage_next = false, full = false;

 private:
  Stream* stream_ = nullptr;
};

// Reads the unit's task blob, writes one blob, and fails or blocks as the unit's case says.
class FakeRunner final : public UnitRunner {
 public:
  std::vector<DeviceInfo> devices() const override {
    DeviceInfo device;
    device.id = "cpu";
    device.target.name = "cpu";
    return {device};
  }
  nlohmann::json compilers() const override { return nlohmann::json::array(); }
  absl::StatusOr<nlohmann::json> CeilingsOf(const std::string&, std::stop_token) override {
    return absl::UnimplementedError("measures nothing");
  }
  nlohmann::json DeviceStates() override { return {{{"id", "cpu"}, {"health", "suspect"}}}; }
  absl::StatusOr<UnitResult> Run(const WorkUnit& unit, BlobStore& blobs,
                                 const std::function<void(std::string)>&,
                                 std::stop_token stop) override {
    ++runs;
    if (unit.only_case == "block") {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait(lock, stop, [] { return false; });
      return WithDeviceNs(absl::CancelledError("stopped"), 41'000'001);
    }
    if (unit.only_case == "malformed") return absl::InvalidArgumentError("bad unit");
    if (unit.only_case == "away") return absl::UnavailableError("no device");
    UnitResult result;
    result.unit_id = unit.id;
    result.attempt = unit.attempt;
    result.environment = nlohmann::json::object();
    result.registration = nlohmann::json::object();
    if (!unit.task_blob.empty()) {
      const auto task = blobs.Get(unit.task_blob);
      if (!task.ok()) return task.status();
      result.environment["task"] = *task;
    }
    BuildRecord build;
    build.diagnostics = nlohmann::json::array();
    build.facts = nlohmann::json::object();
    const auto stored = blobs.Put("code object of " + unit.id + std::string(2'500'000, 'x'));
    if (!stored.ok()) return stored.status();
    build.code_object = *stored;
    result.builds.push_back(build);
    return result;
  }
  std::atomic<int> runs{0};
};

class WorkerClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "fettle-hub-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    StartServer();
    options_.endpoint.endpoint = "unix:" + folder_ + "/socket";
    options_.blob_dir = folder_ + "/blobs";
    options_.worker_id = "w1";
    options_.slots = 3;
  }
  void TearDown() override {
    Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  void StartServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder_ + "/socket", grpc::InsecureServerCredentials());
    builder.RegisterService(&hub_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void StartWorker() {
    worker_ = std::thread([this] { ended_ = ServeUnits(runner_, options_, stop_.get_token()); });
  }
  void Stop() {
    stop_.request_stop();
    if (worker_.joinable()) worker_.join();
  }
  WorkUnit Unit(const std::string& id, const std::string& how = "") {
    WorkUnit unit;
    unit.id = id;
    unit.target = "cpu";
    unit.only_case = how;
    return unit;
  }

  std::string folder_;
  FakeHub hub_;
  std::unique_ptr<grpc::Server> server_;
  FakeRunner runner_;
  WorkerOptions options_;
  std::stop_source stop_;
  absl::Status ended_ = absl::UnknownError("still running");
  std::thread worker_;
};

TEST_F(WorkerClientTest, SaysWhatItIsAndServesAUnitWithItsBlobs) {
  const std::string task(3'000'000, 't');
  hub_.blobs[Sha256Hex(task)] = task;
  StartWorker();
  ASSERT_TRUE(hub_.Wait([this] { return !hub_.hellos.empty(); }));
  EXPECT_EQ(hub_.hellos[0].worker_id(), "w1");
  EXPECT_EQ(hub_.hellos[0].slots(), 3);
  EXPECT_THAT(hub_.hellos[0].devices_json(), HasSubstr("\"target\":\"cpu\""));
  WorkUnit unit = Unit("u1");
  unit.task_blob = Sha256Hex(task);
  hub_.Lease(unit);
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  const auto result = UnitResultFromJson(nlohmann::json::parse(hub_.done[0].result_json()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->environment["task"], task);
  // The blobs were there before the result.
  EXPECT_TRUE(hub_.blobs.contains(result->builds[0].code_object));
  // A second unit of the task needs no second transfer.
  unit.id = "u2";
  hub_.Lease(unit);
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 2; }));
  EXPECT_EQ(hub_.fetches, 1);
  EXPECT_TRUE(hub_.Wait([this] { return hub_.heartbeats > 0; }));
  const auto state = nlohmann::json::parse(hub_.last_state);
  EXPECT_EQ(state["devices"][0]["health"], "suspect") << "heartbeats tell how the devices are";
}

TEST_F(WorkerClientTest, FetchesADamagedBlobAgain) {
  hub_.blobs[Sha256Hex("task")] = "task";
  hub_.damage_next = true;
  StartWorker();
  WorkUnit unit = Unit("u1");
  unit.task_blob = Sha256Hex("task");
  hub_.Lease(unit);
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  EXPECT_EQ(hub_.fetches, 2);
}

// It once tried, and said so, ten times a second for as long as the server's disk was full.
TEST_F(WorkerClientTest, WaitsLongerAndLongerForAFullServerAndSaysSoOnce) {
  const CapturedLog log;
  hub_.full = true;
  StartWorker();
  hub_.Lease(Unit("u1"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.uploads.size() == 4; }));
  {
    const std::lock_guard lock(hub_.mutex);
    EXPECT_GE(hub_.uploads[3] - hub_.uploads[0], std::chrono::milliseconds(100 + 200 + 400));
    EXPECT_TRUE(hub_.done.empty());
  }
  // What refers to no blobs does not wait for those that do.
  hub_.Lease(Unit("u2", "malformed"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.returned.size() == 1; }));
  EXPECT_EQ(log.Count("blob_upload unit=u1"), 1);
  EXPECT_EQ(log.Count("blob_upload_again"), 0);
  {
    const std::lock_guard lock(hub_.mutex);
    hub_.full = false;
  }
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  EXPECT_EQ(log.Count("blob_upload unit=u1"), 1);
  EXPECT_EQ(log.Count("blob_upload_again"), 1);
  Stop();  // Before the log.
}

TEST_F(WorkerClientTest, GivesBackWhatItCannotJudge) {
  StartWorker();
  hub_.Lease(Unit("u1", "malformed"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.returned.size() == 1; }));
  EXPECT_FALSE(hub_.returned[0].retryable());
  EXPECT_THAT(hub_.returned[0].reason(), HasSubstr("bad unit"));
  hub_.Lease(Unit("u2", "away"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.returned.size() == 2; }));
  EXPECT_TRUE(hub_.returned[1].retryable());
}

TEST_F(WorkerClientTest, KeepsResultsAndUnitsOverALostConnection) {
  {
    const std::lock_guard lock(hub_.mutex);
    hub_.acknowledge = false;
  }
  StartWorker();
  hub_.Lease(Unit("held", "block"));
  {
    const std::lock_guard lock(hub_.mutex);
    hub_.hang_up = true;  // After the next message, whatever it is.
  }
  ASSERT_TRUE(hub_.Wait([this] { return hub_.hellos.size() >= 2; }));
  EXPECT_THAT(hub_.hellos.back().held_units(), ::testing::ElementsAre("held:1"));
  hub_.Lease(Unit("u1"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  {
    const std::lock_guard lock(hub_.mutex);
    hub_.hang_up = true;
    hub_.acknowledge = true;
  }
  // Never acknowledged, so it comes again.
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() >= 2; }));
  EXPECT_EQ(hub_.done[0].result_json(), hub_.done[1].result_json());
  EXPECT_EQ(runner_.runs, 2);
}

TEST_F(WorkerClientTest, ReconnectsToARestartedServer) {
  StartWorker();
  ASSERT_TRUE(hub_.Wait([this] { return hub_.hellos.size() == 1; }));
  server_->Shutdown(std::chrono::system_clock::now());
  StartServer();
  ASSERT_TRUE(hub_.Wait([this] { return hub_.hellos.size() == 2; }));
  hub_.Lease(Unit("u1"));
  EXPECT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
}

TEST_F(WorkerClientTest, StoppingReturnsLeasesAtOnce) {
  StartWorker();
  hub_.Lease(Unit("u1", "block"));
  ASSERT_TRUE(hub_.Wait([this] { return runner_.runs == 1 || hub_.heartbeats > 200; }));
  const auto start = std::chrono::steady_clock::now();
  Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
  EXPECT_TRUE(ended_.ok()) << ended_;
  EXPECT_EQ(hub_.drains, 1);
  ASSERT_EQ(hub_.returned.size(), 1u);
  EXPECT_EQ(hub_.returned[0].unit_id(), "u1");
  EXPECT_TRUE(hub_.returned[0].retryable());
}

TEST_F(WorkerClientTest, CancelsAUnit) {
  StartWorker();
  hub_.Lease(Unit("u1", "block"));
  v1::ServerMessage cancel;
  cancel.mutable_cancel()->set_unit_id("u1");
  cancel.mutable_cancel()->set_attempt(1);
  hub_.Send(cancel);
  ASSERT_TRUE(hub_.Wait([this] { return hub_.returned.size() == 1; }));
  EXPECT_THAT(hub_.returned[0].reason(), HasSubstr("stopped"));
  EXPECT_EQ(hub_.returned[0].device_ms(), 42);  // Of the device, rounded up.
}

TEST_F(WorkerClientTest, EndsWhenTheServerDrainsIt) {
  StartWorker();
  hub_.Lease(Unit("u1"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  v1::ServerMessage drain;
  drain.mutable_drain()->set_reason("upgrade");
  hub_.Send(drain);
  worker_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
}

TEST_F(WorkerClientTest, EndsWithoutWork) {
  options_.idle_exit = std::chrono::milliseconds(300);
  StartWorker();
  hub_.Lease(Unit("u1"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.done.size() == 1; }));
  worker_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
  EXPECT_EQ(hub_.drains, 1) << "the server is told, so that it leases nothing meanwhile";
}

TEST_F(WorkerClientTest, StaysWhileItHasWork) {
  options_.idle_exit = std::chrono::milliseconds(200);
  StartWorker();
  hub_.Lease(Unit("u1", "block"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.heartbeats >= 12; }));  // Every 50 ms.
  EXPECT_EQ(hub_.drains, 0);
  v1::ServerMessage cancel;
  cancel.mutable_cancel()->set_unit_id("u1");
  cancel.mutable_cancel()->set_attempt(1);
  hub_.Send(cancel);
  worker_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
}

TEST_F(WorkerClientTest, EndsWithoutAServer) {
  server_->Shutdown(std::chrono::system_clock::now());
  options_.idle_exit = std::chrono::milliseconds(500);
  StartWorker();
  worker_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
}

TEST_F(WorkerClientTest, TakesNoMoreBeforeItsTimeIsOver) {
  // The shortest drain is 20 s, so that it begins in one.
  options_.until_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          (std::chrono::system_clock::now() + std::chrono::seconds(21)).time_since_epoch())
          .count();
  StartWorker();
  hub_.Lease(Unit("u1", "block"));
  ASSERT_TRUE(hub_.Wait([this] { return hub_.drains == 1; }));
  EXPECT_TRUE(hub_.returned.empty()) << "what it holds it may finish";
  v1::ServerMessage cancel;
  cancel.mutable_cancel()->set_unit_id("u1");
  cancel.mutable_cancel()->set_attempt(1);
  hub_.Send(cancel);
  worker_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
}

TEST_F(WorkerClientTest, EndsWhenTheServerRefusesIt) {
  {
    const std::lock_guard lock(hub_.mutex);
    hub_.refuse = true;
  }
  StartWorker();
  worker_.join();
  EXPECT_EQ(ended_.code(), absl::StatusCode::kUnauthenticated) << ended_;
}

}  // namespace
}  // namespace fettle
