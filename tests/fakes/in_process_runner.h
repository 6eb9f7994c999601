// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/runner_session.h"
#include "verifier/case_runner.h"

namespace fettle {

// A RunnerSession in this process, over any device: what a runner does, without a sandbox. TimeCase
// is answered by `time_case`, or refused.
class InProcessRunner final : public RunnerSession {
 public:
  using TimeFunction = std::function<absl::StatusOr<TimeObservation>(
      const TimeRequest&, Device&, DeviceModule& a, DeviceModule& b)>;

  // `device` must outlive this object.
  explicit InProcessRunner(Device& device, TimeFunction time_case = nullptr)
      : device_(device), runner_(device, /*guard_key=*/0x5EED), time_case_(std::move(time_case)) {}
  ~InProcessRunner() override { runner_.Clear(); }

  const DeviceInfo& device() const override { return device_.info(); }

  absl::StatusOr<std::int64_t> LoadModule(std::string_view code_object,
                                          const std::vector<std::string>& symbols) override {
    auto module = device_.Load(code_object, symbols);
    if (!module.ok()) return module.status();
    modules_[next_] = *std::move(module);
    return next_++;
  }
  absl::Status UnloadModule(std::int64_t module) override {
    return modules_.erase(module) == 1 ? absl::OkStatus() : absl::NotFoundError("no such module");
  }
  absl::StatusOr<RunObservation> RunCase(const RunRequest& request) override {
    requests_.push_back(request);
    const auto found = modules_.find(request.kernel.module);
    if (found == modules_.end()) return absl::NotFoundError("no such module");
    return runner_.Run(request, *found->second);
  }
  absl::StatusOr<TimeObservation> TimeCase(const TimeRequest& request) override {
    const auto a = modules_.find(request.a.module), b = modules_.find(request.b.module);
    if (a == modules_.end() || b == modules_.end()) return absl::NotFoundError("no such module");
    if (!time_case_) return absl::UnimplementedError("this runner does not time");
    return time_case_(request, device_, *a->second, *b->second);
  }
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>& rows) override {
    ++fetches_;
    return runner_.Fetch(rows);
  }
  absl::Status CheckHealth() override { return absl::OkStatus(); }

  // Every RunCase request so far.
  const std::vector<RunRequest>& requests() const { return requests_; }
  int fetches() const { return fetches_; }

 private:
  Device& device_;
  std::map<std::int64_t, std::unique_ptr<DeviceModule>> modules_;
  CaseRunner runner_;
  TimeFunction time_case_;
  std::vector<RunRequest> requests_;
  std::int64_t next_ = 1;
  int fetches_ = 0;
};

}  // namespace fettle
