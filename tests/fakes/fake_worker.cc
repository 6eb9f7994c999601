// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_worker.h"

#include <chrono>
#include <utility>

namespace fettle {

FakeWorker::FakeWorker(std::shared_ptr<grpc::Channel> channel, FakeWorkerOptions options,
                       Script script)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      script_(std::move(script)),
      thread_([this] { Loop(); }) {}

FakeWorker::~FakeWorker() { Stop(); }

void FakeWorker::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> FakeWorker::leased() const {
  const std::lock_guard lock(mutex_);
  return leased_;
}

bool FakeWorker::WaitForLeases(std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return leased_.size() >= count; });
}

std::size_t FakeWorker::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

grpc::Status FakeWorker::last_status() const {
  const std::lock_guard lock(mutex_);
  return last_status_;
}

void FakeWorker::Loop() {
  while (true) {
    Serve();
    std::unique_lock lock(mutex_);
    if (!options_.reconnect) return;
    if (changed_.wait_for(lock, std::chrono::milliseconds(10), [this] { return stopping_; })) {
      return;
    }
  }
}

std::optional<v1::WorkerMessage> FakeWorker::ReplyTo(const WorkUnit& unit, bool* die) {
  const FakeAnswer answer = script_(unit);
  *die = false;
  v1::WorkerMessage reply;
  if (answer.result.has_value() || !answer.result_text.empty()) {
    v1::UnitDone& done = *reply.mutable_unit_done();
    done.set_unit_id(unit.id);
    done.set_attempt(unit.attempt);
    done.set_result_json(answer.result.has_value() ? ToJson(*answer.result).dump()
                                                   : answer.result_text);
    return reply;
  }
  if (!answer.return_reason.empty()) {
    v1::UnitReturned& returned = *reply.mutable_unit_returned();
    returned.set_unit_id(unit.id);
    returned.set_attempt(unit.attempt);
    returned.set_reason(answer.return_reason);
    returned.set_retryable(true);
    if (options_.returned_device_ms >= 0) returned.set_device_ms(options_.returned_device_ms);
    return reply;
  }
  *die = answer.die;
  return std::nullopt;
}

void FakeWorker::Serve() {
  auto context = std::make_shared<grpc::ClientContext>();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    context_ = context;
  }
  auto stub = v1::WorkerHub::NewStub(channel_);
  auto stream = stub->Connect(context.get());
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id(options_.id);
  hello.mutable_hello()->set_host("fake");
  hello.mutable_hello()->set_version("0");
  hello.mutable_hello()->set_slots(options_.slots);
  nlohmann::json devices = nlohmann::json::array();
  if (!options_.compile_only) {
    devices.push_back({{"id", options_.target},
                       {"model", options_.model},
                       {"target", options_.target},
                       {"emulated", options_.emulated}});
  }
  hello.mutable_hello()->set_devices_json(devices.dump());
  hello.mutable_hello()->set_compilers_json(
      nlohmann::json::array(
          {{{"name", "fake"}, {"identity", options_.compiler}, {"targets", {options_.target}}}})
          .dump());
  for (const WorkUnit& unit : held_) {
    hello.mutable_hello()->add_held_units(fmt::format("{}:{}", unit.id, unit.attempt));
  }
  bool alive = stream->Write(hello);
  bool die = false;
  for (const WorkUnit& unit : std::exchange(held_, {})) {
    const auto reply = ReplyTo(unit, &die);
    alive = alive && (!reply.has_value() || stream->Write(*reply));
  }
  for (const std::string& state : options_.states) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_state_json(state);
    alive = alive && stream->Write(beat);
  }
  v1::ServerMessage message;
  while (alive && stream->Read(&message)) {
    if (message.has_cancel()) {
      {
        const std::lock_guard lock(mutex_);
        ++cancelled_;
      }
      if (options_.cancelled_device_ms >= 0) {
        v1::WorkerMessage reply;
        reply.mutable_unit_returned()->set_unit_id(message.cancel().unit_id());
        reply.mutable_unit_returned()->set_attempt(message.cancel().attempt());
        reply.mutable_unit_returned()->set_reason("cancelled");
        reply.mutable_unit_returned()->set_device_ms(options_.cancelled_device_ms);
        alive = stream->Write(reply);
      }
    }
    if (!message.has_lease()) continue;
    const absl::StatusOr<WorkUnit> unit =
        WorkUnitFromJson(nlohmann::json::parse(message.lease().unit_json(), nullptr, false));
    if (!unit.ok()) break;
    {
      const std::lock_guard lock(mutex_);
      leased_.push_back(fmt::format("{}:{}", unit->id, unit->attempt));
    }
    changed_.notify_all();
    const std::optional<v1::WorkerMessage> reply = ReplyTo(*unit, &die);
    if (die) {
      if (options_.keeps_held) held_.push_back(*unit);
      context->TryCancel();
      break;
    }
    if (reply.has_value()) alive = stream->Write(*reply);
  }
  const grpc::Status status = stream->Finish();
  const std::lock_guard lock(mutex_);
  last_status_ = status;
  context_.reset();
}

}  // namespace fettle
