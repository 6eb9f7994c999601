// SPDX-License-Identifier: Apache-2.0
#pragma once

// A clock and a device on one simulated time line.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "device/device.h"
#include "profiler/timing.h"

namespace fettle {

class SimulatedTime final : public Clock {
 public:
  std::int64_t NowNs() override { return ns; }
  std::chrono::steady_clock::time_point Steady() override {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
  }
  std::int64_t ns = 1'000'000'000;
};

struct SimulatedEvent final : DeviceEvent {
  explicit SimulatedEvent(std::int64_t when) : at(when) {}
  std::int64_t at;
};
struct SimulatedGraph final : DeviceGraph {
  std::vector<std::pair<Side, int>> calls;
};

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(SimulatedTime& time) : time_(time) {
    info_.id = "sim:0";
    info_.target.vendor = Vendor::kNvidia;
  }
  const DeviceInfo& info() const override { return info_; }
  DeviceState State() override {
    if (tell_state) return tell_state();
    if (states.empty()) return {};
    const DeviceState state = states.front();
    if (states.size() > 1) states.erase(states.begin());
    return state;
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t) override {
    return absl::UnimplementedError("no memory here");
  }
  absl::Status CopyIn(DeviceBuffer&, std::int64_t, std::span<const std::uint8_t>) override {
    return absl::UnimplementedError("no memory here");
  }
  absl::Status CopyOut(const DeviceBuffer&, std::int64_t, std::span<std::uint8_t>) override {
    return absl::UnimplementedError("no memory here");
  }
  absl::Status CopyDevice(DeviceBuffer&, std::int64_t, const DeviceBuffer&, std::int64_t,
                          std::int64_t) override {
    return absl::UnimplementedError("no memory here");
  }
  absl::Status Fill(DeviceBuffer&, std::int64_t, std::int64_t, std::uint8_t) override {
    return absl::UnimplementedError("no memory here");
  }
  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view,
                                                     std::span<const std::string>) override {
    return absl::UnimplementedError("no modules here");
  }
  absl::Status Launch(DeviceModule&, std::string_view, const LaunchConfig&,
                      std::span<const KernelArgument>) override {
    return absl::UnimplementedError("no launches here");
  }
  absl::Status Synchronize(std::chrono::nanoseconds) override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override {
    return std::make_unique<SimulatedEvent>(time_.ns);
  }
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override {
    const double ns = static_cast<double>(static_cast<const SimulatedEvent&>(to).at -
                                          static_cast<const SimulatedEvent&>(from).at);
    return ns * event_scale;
  }
  absl::Status BeginCapture() override {
    if (!has_graphs) return absl::UnimplementedError("no graphs");
    capturing = std::make_unique<SimulatedGraph>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override {
    return std::unique_ptr<DeviceGraph>(std::move(capturing));
  }
  absl::Status Replay(DeviceGraph& graph) override {
    for (const auto& [side, slot] : static_cast<SimulatedGraph&>(graph).calls) run(side, slot);
    ++replays;
    return absl::OkStatus();
  }
  absl::Status Spin(std::chrono::nanoseconds duration) override {
    time_.ns += static_cast<std::int64_t>(static_cast<double>(duration.count()) * spin_scale);
    return absl::OkStatus();
  }
  absl::Status ResetPersistingCache() override { return absl::OkStatus(); }
  std::vector<CheckFinding> TakeFindings() override { return {}; }

  std::vector<DeviceState> states;          // One after another; the last one stays,
  std::function<DeviceState()> tell_state;  // unless this is set.
  double event_scale = 1, spin_scale = 1;
  bool has_graphs = false;
  int replays = 0;
  std::unique_ptr<SimulatedGraph> capturing;
  std::function<void(Side, int)> run;

 private:
  SimulatedTime& time_;
  DeviceInfo info_;
};

}  // namespace fettle
