// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "core/work_unit.h"
#include "fettle/v1/worker.grpc.pb.h"

namespace fettle {

// What a fake worker does with a unit.
struct FakeAnswer {
  std::optional<UnitResult> result;  // Sent as UnitDone.
  std::string result_text;           // Otherwise, when not empty: sent as UnitDone as it is.
  std::string return_reason;         // Otherwise, when not empty: sent as UnitReturned, retryable.
  bool die = false;                  // Otherwise: the connection breaks at once.
  // Otherwise the unit is held without an answer.
};

struct FakeWorkerOptions {
  std::string id = "fake-1";
  int slots = 1;
  std::string target = "cpu";
  std::string model = "fake cpu";
  std::string compiler = "fake compiler 1";
  bool emulated = false;            // Its device.
  bool compile_only = false;        // It offers none.
  std::vector<std::string> states;  // Sent as heartbeats, one after the other, after its Hello.
  // What a unit that the server cancels took of the device; below 0: it says nothing.
  std::int64_t cancelled_device_ms = -1;
  std::int64_t returned_device_ms = -1;  // Likewise, of one that its script gives back.
  // Its Hello after a death names what it had not answered, and it answers that then.
  bool keeps_held = false;
  // Connect again, some milliseconds after the connection ended.
  bool reconnect = true;
};

// A client of WorkerHub that answers every unit as its script says, on one thread.
class FakeWorker {
 public:
  using Script = std::function<FakeAnswer(const WorkUnit&)>;

  FakeWorker(std::shared_ptr<grpc::Channel> channel, FakeWorkerOptions options, Script script);
  ~FakeWorker();

  void Stop();  // Idempotent.
  // "unit:attempt" of everything leased so far, in order.
  std::vector<std::string> leased() const;
  // Blocks until so many units were leased, or ten seconds passed (false).
  bool WaitForLeases(std::size_t count);
  std::size_t cancelled() const;
  // How the last connection ended.
  grpc::Status last_status() const;

 private:
  void Loop();
  void Serve();
  // The reply to a unit; unset: none, and `*die` says whether the connection is to break.
  std::optional<v1::WorkerMessage> ReplyTo(const WorkUnit& unit, bool* die);

  const std::shared_ptr<grpc::Channel> channel_;
  const FakeWorkerOptions options_;
  const Script script_;
  std::vector<WorkUnit> held_;  // Of the thread, for keeps_held.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> leased_;               // Guarded by mutex_.
  std::size_t cancelled_ = 0;                     // Guarded by mutex_.
  grpc::Status last_status_;                      // Guarded by mutex_.
  std::shared_ptr<grpc::ClientContext> context_;  // Guarded by mutex_.
  bool stopping_ = false;                         // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace fettle
