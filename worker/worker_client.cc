// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "fettle/v1/worker.grpc.pb.h"
#include "worker/blob_client.h"
#include "worker/held_units.h"
#include "worker/runner_protocol.h"
#include "worker/unit_device_time.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstBackoff{100};
constexpr milliseconds kLongestBackoff{5000};
constexpr milliseconds kDeliverSlice{100};
constexpr milliseconds kDrainLimit{2000};
constexpr milliseconds kHeartbeat{2000};
// A unit may take minutes: this much of the worker's last time is not begun on.
constexpr double kDrainShare = 0.1;
constexpr milliseconds kShortestDrain{20'000};
constexpr milliseconds kLongestDrain{600'000};

std::string FreshWorkerId() {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  std::random_device random;
  return fmt::format("{}-{}-{:08x}", host, getpid(), random());
}

bool IsHopeless(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

// Whether running the unit again elsewhere or later may help.
bool IsRetryable(const absl::Status& status) {
  return !absl::IsInvalidArgument(status) && !absl::IsFailedPrecondition(status) &&
         !absl::IsUnimplemented(status);
}

using SteadyTime = std::chrono::steady_clock::time_point;

// When a worker that ends at `until_ns` takes no more units.
SteadyTime DrainAt(const WorkerOptions& options) {
  if (options.until_ns == 0) return SteadyTime::max();
  const auto left =
      std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(options.until_ns) -
                                               std::chrono::system_clock::now().time_since_epoch());
  const auto share = milliseconds(static_cast<std::int64_t>(
      kDrainShare * static_cast<double>(std::max<std::int64_t>(left.count(), 0))));
  return std::chrono::steady_clock::now() + left - std::clamp(share, kShortestDrain, kLongestDrain);
}

// One worker over its reconnections.
class Client {
 public:
  Client(UnitRunner& runner, const WorkerOptions& options, std::shared_ptr<grpc::Channel> channel,
         BlobStore& blobs)
      : runner_(runner),
        options_(options),
        local_(blobs),
        blobs_(channel, blobs),
        hub_(v1::WorkerHub::NewStub(channel)),
        worker_id_(options.worker_id.empty() ? FreshWorkerId() : options.worker_id),
        drain_at_(DrainAt(options)),
        held_([this](const WorkUnit& unit, std::stop_token stop) { return Work(unit, stop); }) {}

  absl::Status Run(std::stop_token stop);

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>;

  // One connection from Hello to its end.
  absl::Status Connect(std::stop_token stop);
  void Receive(Stream& stream);
  void Deliver(Stream& stream, std::stop_token end);
  void Beat(Stream& stream, std::stop_token end);
  void DrainNow(Stream& stream, const std::string& reason);
  bool Write(Stream& stream, const v1::WorkerMessage& message);
  void TellUpload(const std::string& unit, const absl::Status& uploaded);
  v1::WorkerMessage Hello() const;
  void Take(const v1::UnitLease& lease);
  UnitOutcome Work(const WorkUnit& unit, std::stop_token stop);
  int slots() const;
  // Why the worker is to end by itself once it holds nothing; empty: it goes on. `stream`: told
  // that no more units are wanted; null while there is no connection.
  std::string WhyEnd(Stream* stream);

  UnitRunner& runner_;
  const WorkerOptions& options_;
  BlobStore& local_;
  BlobClient blobs_;
  std::unique_ptr<v1::WorkerHub::Stub> hub_;
  const std::string worker_id_;
  std::mutex write_mutex_;  // One write at a time.
  std::atomic<std::int64_t> heartbeat_ms_{kHeartbeat.count()};
  std::atomic<bool> welcomed_{false};
  std::atomic<bool> server_drains_{false};
  std::atomic<bool> ended_{false};      // It drained by itself.
  std::atomic<bool> time_over_{false};  // The server knows that no more units are wanted.
  std::atomic<SteadyTime> last_work_{std::chrono::steady_clock::now()};
  absl::StatusCode upload_ = absl::StatusCode::kOk;  // As it was logged; of Deliver's thread.
  const SteadyTime drain_at_;
  HeldUnits held_;  // Threads: last.
};

int Client::slots() const {
  if (options_.slots > 0) return options_.slots;
  // Those on each device, and others that compile meanwhile: on the cpu, where compiling waits for
  // timing, one more; for a GPU as many as there are cores.
  constexpr int kMostAhead = 24, kOnGpu = 8;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  int slots = 0;
  for (const DeviceInfo& device : runner_.devices()) {
    slots += device.target.vendor == Vendor::kCpu ? 2 : kOnGpu + std::clamp(cores, 1, kMostAhead);
  }
  if (runner_.devices().empty()) slots = std::min(cores, kMostAhead);  // It only compiles.
  return std::clamp(slots, 2, 64);
}

v1::WorkerMessage Client::Hello() const {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  nlohmann::json devices = nlohmann::json::array();
  for (const DeviceInfo& device : runner_.devices()) {
    nlohmann::json json = ToJson(device);
    json["target"] = device.target.name;
    devices.push_back(std::move(json));
  }
  hello.set_worker_id(worker_id_);
  hello.set_host(host);
  hello.set_version(FETTLE_VERSION);
  hello.set_devices_json(devices.dump(-1, ' ', false, kReplaceInvalid));
  hello.set_compilers_json(runner_.compilers().dump(-1, ' ', false, kReplaceInvalid));
  hello.set_slots(slots());
  for (const std::string& key : held_.Keys()) hello.add_held_units(key);
  return message;
}

std::string Client::WhyEnd(Stream* stream) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const bool holds = !held_.Keys().empty();
  if (now >= drain_at_ && !time_over_ && stream != nullptr) {
    spdlog::info("time_nearly_over held={}", held_.Keys().size());
    v1::WorkerMessage message;
    message.mutable_draining()->set_reason("its time is nearly over");
    time_over_ = Write(*stream, message);
  }
  if (holds && stream != nullptr) {
    last_work_ = now;
    return "";
  }
  if (options_.idle_exit.count() > 0 && now - last_work_.load() >= options_.idle_exit) {
    return stream == nullptr ? "the server is away" : "there is no work";
  }
  if (holds) return "";  // Results that the server has yet to come back for.
  if (server_drains_) return "drained";
  return now >= drain_at_ ? "its time is nearly over" : "";
}

bool Client::Write(Stream& stream, const v1::WorkerMessage& message) {
  const std::lock_guard lock(write_mutex_);
  return stream.Write(message);
}

UnitOutcome Client::Work(const WorkUnit& unit, std::stop_token stop) {
  UnitBlobs blobs(blobs_, local_, stop);
  UnitOutcome outcome;
  const absl::StatusOr<UnitResult> result = runner_.Run(unit, blobs, {}, stop);
  if (result.ok()) {
    outcome.result_json = ToJson(*result).dump(-1, ' ', false, kReplaceInvalid);
    outcome.blobs = blobs.TakeWritten();
    return outcome;
  }
  outcome.reason = fmt::format("{}: {}", absl::StatusCodeToString(result.status().code()),
                               std::string(result.status().message()));
  outcome.retryable = IsRetryable(result.status());
  outcome.device_ms = (DeviceNsOf(result.status()) + 999'999) / 1'000'000;
  spdlog::info("unit_returned unit={} attempt={} reason=\"{}\"", unit.id, unit.attempt,
               outcome.reason);
  return outcome;
}

void Client::Take(const v1::UnitLease& lease) {
  absl::StatusOr<WorkUnit> unit = WorkUnitFromJson(ParseJson(lease.unit_json()));
  if (!unit.ok()) {
    // Without an id it cannot be given back; its lease ends at its deadline.
    spdlog::error("lease_malformed error=\"{}\"", std::string(unit.status().message()));
    return;
  }
  if (lease.deadline_ms() > 0) unit->deadline_ms = lease.deadline_ms();
  held_.Lease(*std::move(unit));
}

void Client::Receive(Stream& stream) {
  v1::ServerMessage message;
  while (stream.Read(&message)) {
    switch (message.payload_case()) {
      case v1::ServerMessage::kWelcome:
        if (message.welcome().heartbeat_ms() > 0) heartbeat_ms_ = message.welcome().heartbeat_ms();
        welcomed_ = true;
        break;
      case v1::ServerMessage::kLease:
        Take(message.lease());
        break;
      case v1::ServerMessage::kCancel:
        held_.Cancel({message.cancel().unit_id(), message.cancel().attempt()});
        break;
      case v1::ServerMessage::kAck:
        held_.Acknowledge({message.ack().unit_id(), message.ack().attempt()});
        break;
      case v1::ServerMessage::kDrain:
        spdlog::info("drain_asked reason=\"{}\"", message.drain().reason());
        server_drains_ = true;
        break;
      case v1::ServerMessage::PAYLOAD_NOT_SET:
        break;
    }
  }
}

// A server whose disk is full may stay so for hours: logged once, and again when it is over or
// becomes something else.
void Client::TellUpload(const std::string& unit, const absl::Status& uploaded) {
  if (uploaded.code() == upload_) return;
  upload_ = uploaded.code();
  if (uploaded.ok()) {
    spdlog::info("blob_upload_again unit={}", unit);
  } else {
    spdlog::warn("blob_upload unit={} error=\"{}\"", unit, std::string(uploaded.message()));
  }
}

// Sends outcomes as they come, each after its blobs.
void Client::Deliver(Stream& stream, std::stop_token end) {
  milliseconds backoff = kFirstBackoff;
  SteadyTime upload_at = SteadyTime::min();  // What needs no upload goes meanwhile.
  while (!end.stop_requested()) {
    const bool with_blobs = std::chrono::steady_clock::now() >= upload_at;
    const std::optional<HeldUnits::Ready> ready = held_.NextUnsent(end, kDeliverSlice, with_blobs);
    if (!ready) continue;
    const UnitOutcome& outcome = ready->outcome;
    v1::WorkerMessage message;
    if (outcome.result_json.empty()) {
      v1::UnitReturned& returned = *message.mutable_unit_returned();
      returned.set_unit_id(ready->key.first);
      returned.set_attempt(ready->key.second);
      returned.set_reason(CutText(outcome.reason, 2000));
      returned.set_retryable(outcome.retryable);
      if (outcome.device_ms.has_value()) returned.set_device_ms(*outcome.device_ms);
    } else {
      const absl::Status uploaded = blobs_.Upload(outcome.blobs, end);
      if (!uploaded.ok()) {
        held_.Unsend(ready->key);
        if (end.stop_requested()) return;
        TellUpload(ready->key.first, uploaded);
        upload_at = std::chrono::steady_clock::now() + backoff;
        backoff = std::min(backoff * 2, kLongestBackoff);
        continue;
      }
      TellUpload(ready->key.first, uploaded);
      backoff = kFirstBackoff;
      v1::UnitDone& done = *message.mutable_unit_done();
      done.set_unit_id(ready->key.first);
      done.set_attempt(ready->key.second);
      done.set_result_json(outcome.result_json);
    }
    if (!Write(stream, message)) return;  // The connection is gone; it is sent again on the next.
  }
}

void Client::Beat(Stream& stream, std::stop_token end) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!end.stop_requested()) {
    v1::WorkerMessage message;
    const std::vector<std::string> keys = held_.Keys();
    for (const std::string& key : keys) message.mutable_heartbeat()->add_held_units(key);
    message.mutable_heartbeat()->set_state_json(
        nlohmann::json{{"held", keys.size()}, {"devices", runner_.DeviceStates()}}.dump(
            -1, ' ', false, kReplaceInvalid));
    if (!Write(stream, message)) return;
    wake.wait_for(lock, end, milliseconds(heartbeat_ms_.load()), [] { return false; });
  }
}

// Gives every lease back and waits shortly for the server to have them.
void Client::DrainNow(Stream& stream, const std::string& reason) {
  v1::WorkerMessage message;
  message.mutable_draining()->set_reason(CutText(reason, 500));
  if (!Write(stream, message)) return;
  held_.ReturnAll(reason);
  held_.WaitEmpty(kDrainLimit);
}

absl::Status Client::Connect(std::stop_token stop) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = hub_->Connect(&context);
  welcomed_ = false;
  time_over_ = false;
  held_.MarkUnsent();
  if (Write(*stream, Hello())) {
    std::jthread deliver([this, &stream](std::stop_token end) { Deliver(*stream, end); });
    std::jthread beat([this, &stream](std::stop_token end) { Beat(*stream, end); });
    std::jthread drain([this, &stream, &context, stop](std::stop_token end) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::string why;
      {
        const std::stop_callback wakes(stop, [&mutex, &wake] {
          const std::lock_guard lock(mutex);
          wake.notify_all();
        });
        std::unique_lock lock(mutex);
        while (!end.stop_requested() && !stop.stop_requested()) {
          why = WhyEnd(stream.get());
          if (!why.empty()) break;
          wake.wait_for(lock, end, kDeliverSlice, [&stop] { return stop.stop_requested(); });
        }
      }
      if (end.stop_requested()) return;
      ended_ = true;
      spdlog::info("worker_ends reason=\"{}\"", stop.stop_requested() ? "asked to" : why);
      DrainNow(*stream, stop.stop_requested() ? "the worker is stopping" : why);
      context.TryCancel();
    });
    Receive(*stream);
  }
  absl::Status status = FromGrpcStatus(stream->Finish(), options_.endpoint.endpoint);
  return status;
}

absl::Status Client::Run(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::mt19937 jitter{std::random_device{}()};
  milliseconds backoff = kFirstBackoff;
  while (!stop.stop_requested()) {
    const absl::Status ended = Connect(stop);
    if (stop.stop_requested() || ended_) break;
    if (IsHopeless(ended)) return ended;
    if (const std::string why = WhyEnd(nullptr); !why.empty()) {
      spdlog::info("worker_ends reason=\"{}\"", why);
      break;
    }
    if (welcomed_) backoff = kFirstBackoff;
    spdlog::info("reconnect endpoint={} in_ms={} error=\"{}\"", options_.endpoint.endpoint,
                 backoff.count(), std::string(ended.message()));
    std::unique_lock lock(mutex);
    const milliseconds pause =
        backoff / 2 + milliseconds(jitter() % static_cast<unsigned>(
                                                  std::max<std::int64_t>(1, backoff.count() / 2)));
    wake.wait_for(lock, stop, pause, [] { return false; });
    backoff = std::min(backoff * 2, kLongestBackoff);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ServeUnits(UnitRunner& runner, const WorkerOptions& options, std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                          OpenChannel(options.endpoint));
  std::filesystem::path folder = options.blob_dir;
  if (folder.empty()) {
    folder = std::filesystem::path(options.runner.cache_dir.empty() ? "/tmp"
                                                                    : options.runner.cache_dir) /
             "worker-blobs";
  }
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<BlobFolder> blobs,
                          BlobFolder::Open(folder, options.blob_limit_bytes));
  Client client(runner, options, channel, *blobs);
  return client.Run(stop);
}

absl::Status RunWorker(const WorkerOptions& options, std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<UnitRunner> runner,
                          UnitRunner::Create(options.runner));
  return ServeUnits(*runner, options, stop);
}

}  // namespace fettle
