// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "device/runner_session.h"
#include "profiler/roofline.h"
#include "worker/runner_protocol.h"
#include "worker/sandbox.h"

namespace fettle {

// The worker's end of a sandboxed runner. Every call ends: with an answer, with the runner's death,
// at a deadline, when `stop` is requested or when the sandbox uses more memory than it may. After
// kAborted, kDeadlineExceeded or kCancelled the process is gone and only destruction is left.
class RunnerClient final : public RunnerSession {
 public:
  struct Options {
    SandboxOptions sandbox;
    std::chrono::seconds start_limit{60};  // For the device to answer; a GPU context takes time.
    std::chrono::seconds grace{60};        // On top of what a request may take by itself.
  };
  // kUnavailable: no runner, or the device cannot be opened (the runner's own message).
  static absl::StatusOr<std::unique_ptr<RunnerClient>> Start(Options options, std::stop_token stop);
  ~RunnerClient() override;

  const DeviceInfo& device() const override { return device_; }
  absl::StatusOr<std::int64_t> LoadModule(std::string_view code_object,
                                          const std::vector<std::string>& symbols) override;
  absl::Status UnloadModule(std::int64_t module) override;
  absl::StatusOr<RunObservation> RunCase(const RunRequest& request) override;
  absl::StatusOr<TimeObservation> TimeCase(const TimeRequest& request) override;
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>& rows) override;
  absl::Status CheckHealth() override;
  // Of a runner started with --ceilings, which answers nothing else.
  absl::StatusOr<Ceilings> MeasureCeilings();

  // Ends the calls to come, and the one in progress, when `stop` is requested.
  void set_stop(std::stop_token stop) { stop_ = std::move(stop); }
  // Whether the process can still be asked.
  bool alive() const { return !dead_; }
  pid_t pid() const { return process_->pid(); }
  // Device time of all requests so far; of one that failed, what it may have taken at most.
  double device_ns() const { return device_ns_; }
  // What requests may take from now on; a call that would need more ends with kDeadlineExceeded.
  // Unset: no limit.
  void LimitDevice(std::optional<std::chrono::nanoseconds> most);
  // Whether a call since LimitDevice ended for that reason.
  bool device_spent() const { return device_spent_; }

 private:
  explicit RunnerClient(Options options) : options_(std::move(options)) {}
  // One request and its answer; `bulk` -1: none. Errors end the process where they must.
  absl::StatusOr<nlohmann::json> Ask(nlohmann::json request, int bulk,
                                     std::chrono::nanoseconds limit);
  absl::StatusOr<nlohmann::json> Exchange(const nlohmann::json& request, int bulk,
                                          std::chrono::nanoseconds limit);
  absl::Status Watch();
  absl::Status Died(absl::Status status);
  absl::Status Distrust(const absl::Status& status);
  // The device time that is left, at most `wanted`; kDeadlineExceeded where none is.
  absl::StatusOr<std::chrono::nanoseconds> DeviceLeft(std::chrono::nanoseconds wanted);
  // Charges a request that began at `start` and failed with `status`; `cut`: it was allowed less
  // than it asked for.
  void ChargeFailed(std::chrono::steady_clock::time_point start, const absl::Status& status,
                    bool cut);
  // Charges a request that took `device_ns`. kDeadlineExceeded where that is more than there was: a
  // processor's clock is looked at after the call.
  absl::Status ChargeDone(double device_ns);
  // Sends a run or time request with its files and room for `copies` sets of outputs.
  struct Answer {
    nlohmann::json observation;
    UniqueFd bulk;
    std::int64_t offset = 0;  // Of the outputs.
  };
  absl::StatusOr<Answer> AskCase(std::string_view op, nlohmann::json request,
                                 const BoundCase& bound_case,
                                 const std::map<std::string, std::string>& files, int copies,
                                 std::chrono::nanoseconds limit);
  using Outputs = std::vector<std::vector<std::uint8_t>>;
  // Reads one set of outputs and moves the answer's offset past it.
  absl::StatusOr<Outputs> TakeOutputs(Answer& answer, const std::vector<std::int64_t>& sizes);

  Options options_;
  std::stop_token stop_;
  std::unique_ptr<SandboxedProcess> process_;
  DeviceInfo device_;
  bool dead_ = false;
  double device_ns_ = 0;
  std::optional<double> device_end_ns_;  // Of device_ns_.
  bool device_spent_ = false;
  BoundCase last_case_;  // What FetchOutputs speaks of.
  SentCases sent_;
};

}  // namespace fettle
