// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "device/device.h"
#include "device/runner_session.h"
#include "profiler/case_pair.h"
#include "verifier/case_runner.h"

namespace fettle {

// The session inside the runner process: modules, verification calls and timing on one device.
class LocalSession final : public RunnerSession {
 public:
  struct Options {
    std::uint64_t guard_key = 0;    // Fresh per process.
    std::int64_t memory_bytes = 0;  // What timing may allocate for rotation; 0: a quarter
                                    // of the device's.
    // Told the launch limit of each request; may be empty.
    std::function<void(std::chrono::nanoseconds)> set_launch_limit;
  };
  // `device` and `clock` must outlive the session.
  LocalSession(Device& device, Clock& clock, Options options);

  const DeviceInfo& device() const override { return device_.info(); }
  absl::StatusOr<std::int64_t> LoadModule(std::string_view code_object,
                                          const std::vector<std::string>& symbols) override;
  absl::Status UnloadModule(std::int64_t module) override;
  absl::StatusOr<RunObservation> RunCase(const RunRequest& request) override;
  absl::StatusOr<TimeObservation> TimeCase(const TimeRequest& request) override;
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>& rows) override;
  absl::Status CheckHealth() override;

 private:
  struct Loaded {
    std::unique_ptr<DeviceModule> module;
    std::string code_object;
    std::vector<std::string> symbols;
  };
  absl::StatusOr<Loaded*> FindModule(std::int64_t module);
  void LimitLaunches(std::chrono::nanoseconds limit);

  Device& device_;
  Clock& clock_;
  Options options_;
  std::map<std::int64_t, Loaded> modules_;
  std::int64_t next_module_ = 1;
  CaseRunner cases_;
  std::unique_ptr<KeptOutputs> timed_;  // Of the last TimeCase, until the next call.
};

}  // namespace fettle
