// SPDX-License-Identifier: Apache-2.0
#include "worker/watchdog.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

namespace fettle {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kLook{20};
constexpr std::int64_t kMostStarved = 4;

std::int64_t SteadyNs() {
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Processor time of all threads of this process.
std::int64_t UsedNs() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

class Armed {
 public:
  Armed(Watchdog& watchdog, nanoseconds limit, const char* what) : watchdog_(watchdog) {
    watchdog_.Arm(limit, what);
  }
  ~Armed() { watchdog_.Disarm(); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;

 private:
  Watchdog& watchdog_;
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(Device& inner, Watchdog& watchdog, nanoseconds limit)
      : inner_(inner), watchdog_(watchdog), limit_(limit) {}

  void set_limit(nanoseconds limit) { limit_ = limit; }

  const DeviceInfo& info() const override { return inner_.info(); }
  DeviceState State() override { return inner_.State(); }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) override {
    return inner_.Allocate(size_bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocatePageEnd(std::int64_t size_bytes,
                                                                std::int64_t align) override {
    return inner_.AllocatePageEnd(size_bytes, align);
  }
  void SetPayload(const DeviceBuffer& buffer, std::int64_t offset,
                  std::int64_t size_bytes) override {
    inner_.SetPayload(buffer, offset, size_bytes);
  }
  void Annotate(const DeviceBuffer& buffer, const BufferNote& note) override {
    inner_.Annotate(buffer, note);
  }
  void SetSchedule(std::string_view schedule, std::uint64_t seed) override {
    inner_.SetSchedule(schedule, seed);
  }
  absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                      std::span<const std::uint8_t> from) override {
    return inner_.CopyIn(to, offset, from);
  }
  absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                       std::span<std::uint8_t> to) override {
    return inner_.CopyOut(from, offset, to);
  }
  absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset, const DeviceBuffer& from,
                          std::int64_t from_offset, std::int64_t size_bytes) override {
    return inner_.CopyDevice(to, to_offset, from, from_offset, size_bytes);
  }
  absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                    std::uint8_t byte) override {
    return inner_.Fill(to, offset, size_bytes, byte);
  }
  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(
      std::string_view code_object, std::span<const std::string> symbols) override {
    const Armed armed(watchdog_, limit_, "loading the code object");  // Constructors run here.
    return inner_.Load(code_object, symbols);
  }
  absl::Status Launch(DeviceModule& module, std::string_view symbol, const LaunchConfig& config,
                      std::span<const KernelArgument> arguments) override {
    const Armed armed(watchdog_, limit_, "a launch");
    return inner_.Launch(module, symbol, config, arguments);
  }
  absl::Status Synchronize(nanoseconds limit) override {
    // The device gives up first where it can.
    const nanoseconds most = std::min(limit, kLongest) + std::chrono::seconds(5);
    const Armed armed(watchdog_, most, "the device's work");
    return inner_.Synchronize(limit);
  }
  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override { return inner_.Record(); }
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override {
    return inner_.ElapsedNs(from, to);
  }
  absl::Status BeginCapture() override { return inner_.BeginCapture(); }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override { return inner_.EndCapture(); }
  absl::Status Replay(DeviceGraph& graph) override {
    const Armed armed(watchdog_, limit_, "a replayed launch");
    return inner_.Replay(graph);
  }
  absl::StatusOr<std::vector<DeviceDigest>> Digests(std::span<const DeviceRange> ranges,
                                                    std::uint64_t key, nanoseconds limit) override {
    const nanoseconds most = std::min(limit, kLongest) + std::chrono::seconds(5);
    const Armed armed(watchdog_, most, "the device's work");
    return inner_.Digests(ranges, key, limit);
  }
  absl::Status Spin(nanoseconds duration) override { return inner_.Spin(duration); }
  absl::Status ResetPersistingCache() override { return inner_.ResetPersistingCache(); }
  std::vector<CheckFinding> TakeFindings() override { return inner_.TakeFindings(); }

 private:
  static constexpr nanoseconds kLongest = std::chrono::hours(1);
  Device& inner_;
  Watchdog& watchdog_;
  nanoseconds limit_;
};

}  // namespace

Watchdog::Watchdog(Expired expired, Bounds bounds)
    : expired_(std::move(expired)),
      bounds_(bounds),
      thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

Watchdog::~Watchdog() = default;  // The thread's stop token wakes it.

void Watchdog::Arm(nanoseconds limit, const char* what) {
  what_.store(what, std::memory_order_relaxed);
  limit_ns_.store(limit.count(), std::memory_order_relaxed);
  deadline_ns_.store(SteadyNs() + limit.count(), std::memory_order_release);
}

void Watchdog::Disarm() { deadline_ns_.store(0, std::memory_order_release); }

bool Watchdog::Starved(std::int64_t deadline) {
  if (bounds_ == Bounds::kWallTime) return false;
  const std::int64_t limit = limit_ns_.load(std::memory_order_relaxed);
  return UsedNs() - seen_used_ns_ < limit / 2 && SteadyNs() < deadline + (kMostStarved - 1) * limit;
}

void Watchdog::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kLook, [] { return false; });
    std::int64_t deadline = deadline_ns_.load(std::memory_order_acquire);
    if (deadline == 0) continue;
    if (deadline != seen_deadline_ns_) {
      seen_deadline_ns_ = deadline;
      seen_used_ns_ = UsedNs();
    }
    if (SteadyNs() < deadline || Starved(deadline)) continue;
    // Only if it was not disarmed or armed anew meanwhile.
    if (!deadline_ns_.compare_exchange_strong(deadline, 0)) continue;
    expired_(
        fmt::format("{} did not finish within {} ms", what_.load(), limit_ns_.load() / 1'000'000));
  }
}

std::unique_ptr<Device> WatchDevice(Device& inner, Watchdog& watchdog, nanoseconds limit) {
  return std::make_unique<WatchedDevice>(inner, watchdog, limit);
}

void SetLaunchLimit(Device& watched, nanoseconds limit) {
  static_cast<WatchedDevice&>(watched).set_limit(limit);
}

}  // namespace fettle
