// SPDX-License-Identifier: Apache-2.0
#include "profiler/duty.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "core/json_reader.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;

constexpr int kMostLaunches = 20'000;
constexpr nanoseconds kReadingAtRest{50'000'000};

double Middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Readings of one ratio.
class Readings {
 public:
  void Add(const DeviceState& state) {
    if (state.clock_mhz > 0) clocks_.push_back(state.clock_mhz);
    if (state.power_w > 0) powers_.push_back(state.power_w);
    if (state.temperature_c > 0) temperature_c_ = state.temperature_c;
    if (state.throttled) {
      reason_ = state.throttle_reason.empty() ? "throttled" : state.throttle_reason;
    }
  }
  void Fill(DutyPoint& point) const {
    point.clock_mhz = Mean(clocks_);
    point.power_w = Mean(powers_);
    if (!clocks_.empty())
      point.lowest_clock_mhz = *std::min_element(clocks_.begin(), clocks_.end());
    if (!powers_.empty()) point.highest_power_w = *std::max_element(powers_.begin(), powers_.end());
    point.temperature_c = temperature_c_;
    point.throttle_reason = reason_;
  }

 private:
  static double Mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  }
  std::vector<double> clocks_, powers_;
  double temperature_c_ = 0;
  std::string reason_;
};

class DutyRun {
 public:
  DutyRun(Device& device, TimedPair& pair, const DutyOptions& options, Clock& clock,
          const SleepFor& sleep)
      : device_(device), pair_(pair), options_(options), clock_(clock), sleep_(sleep) {}

  absl::StatusOr<std::vector<DutyPoint>> Run() {
    for (const double ratio : options_.ratios) {
      if (!(ratio >= 0 && ratio <= 1)) {
        return absl::InvalidArgumentError(fmt::format("duty ratio {}: must be 0 to 1", ratio));
      }
    }
    std::vector<DutyPoint> points;
    for (const double ratio : options_.ratios) {
      FETTLE_ASSIGN_OR_RETURN(points.emplace_back(), ratio > 0 ? At(ratio) : AtRest());
    }
    return points;
  }

 private:
  nanoseconds Since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<nanoseconds>(clock_.Steady() - start);
  }

  struct Burst {
    double busy_ns = 0;
    DeviceState state;  // While it ran, where launches return before they end.
  };
  absl::StatusOr<Burst> Launch(int launches) {
    Burst burst;
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> start, device_.Record());
    const int first = next_slot_;
    for (int i = 0; i < launches; ++i) {
      FETTLE_RETURN_IF_ERROR(pair_.Enqueue(Side::kB, next_slot_));
      next_slot_ = (next_slot_ + 1) % pair_.slots();
    }
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> end, device_.Record());
    burst.state = device_.State();
    FETTLE_RETURN_IF_ERROR(device_.Synchronize(options_.launch_limit));
    FETTLE_ASSIGN_OR_RETURN(burst.busy_ns, device_.ElapsedNs(*start, *end));
    if (pair_.resets_between_calls()) {
      FETTLE_RETURN_IF_ERROR(pair_.AfterSample(Side::kB, first, launches, /*warmup=*/true));
    }
    return burst;
  }

  absl::StatusOr<DutyPoint> AtRest() {
    DutyPoint point;
    Readings readings;
    const auto start = clock_.Steady();
    while (Since(start) < options_.span) {
      sleep_(kReadingAtRest);
      if (3 * Since(start) > options_.span) readings.Add(device_.State());
    }
    readings.Fill(point);
    return point;
  }

  absl::StatusOr<DutyPoint> At(double ratio) {
    // How many launches make a burst; the first ones also warm up.
    if (launches_ == 0) {
      FETTLE_RETURN_IF_ERROR(Launch(1).status());
      FETTLE_ASSIGN_OR_RETURN(const Burst one, Launch(1));
      const double wanted =
          static_cast<double>(options_.burst.count()) / std::max(one.busy_ns, 1000.0);
      launches_ = static_cast<int>(std::clamp(std::round(wanted), 1.0, double{kMostLaunches}));
      if (pair_.resets_between_calls()) launches_ = std::min(launches_, pair_.slots());
    }
    DutyPoint point;
    point.asked = ratio;
    Readings readings;
    std::vector<double> times;
    const auto start = clock_.Steady();
    auto counted_from = start;
    double busy_ns = 0;  // Since then.
    bool settled = false;
    do {
      if (!settled && 3 * Since(start) > options_.span) {
        settled = true;
        counted_from = clock_.Steady();
        busy_ns = 0;
      }
      FETTLE_ASSIGN_OR_RETURN(const Burst burst, Launch(launches_));
      point.launches += launches_;
      busy_ns += burst.busy_ns;
      if (settled) {
        readings.Add(burst.state);
        times.push_back(burst.busy_ns / launches_);
      }
      // Rest until the kernel has run for no more than its share of the time.
      const double rest_ns = busy_ns / ratio - static_cast<double>(Since(counted_from).count());
      if (rest_ns > 0) sleep_(nanoseconds(static_cast<std::int64_t>(rest_ns)));
    } while (Since(start) < options_.span || times.empty());
    const double counted_ns = static_cast<double>(Since(counted_from).count());
    point.ran = std::min(1.0, busy_ns / std::max(1.0, counted_ns));
    point.median_ns = Middle(std::move(times));
    readings.Fill(point);
    return point;
  }

  Device& device_;
  TimedPair& pair_;
  const DutyOptions& options_;
  Clock& clock_;
  const SleepFor& sleep_;
  int launches_ = 0;  // Of a burst; 0: not known yet.
  int next_slot_ = 0;
};

nlohmann::json PointJson(const DutyPoint& point) {
  return {{"asked", JsonNumber(point.asked)},
          {"ran", JsonNumber(point.ran)},
          {"launches", point.launches},
          {"median_ns", JsonNumber(point.median_ns)},
          {"clock_mhz", JsonNumber(point.clock_mhz)},
          {"lowest_clock_mhz", JsonNumber(point.lowest_clock_mhz)},
          {"power_w", JsonNumber(point.power_w)},
          {"highest_power_w", JsonNumber(point.highest_power_w)},
          {"temperature_c", JsonNumber(point.temperature_c)},
          {"throttle_reason", point.throttle_reason}};
}

absl::StatusOr<DutyPoint> PointFromJson(const nlohmann::json& json) {
  JsonReader reader(json, "duty point");
  DutyPoint point;
  reader.Get("asked", point.asked);
  reader.Get("ran", point.ran);
  reader.Get("launches", point.launches);
  reader.Get("median_ns", point.median_ns);
  reader.Get("clock_mhz", point.clock_mhz);
  reader.Get("lowest_clock_mhz", point.lowest_clock_mhz);
  reader.Get("power_w", point.power_w);
  reader.Get("highest_power_w", point.highest_power_w);
  reader.Get("temperature_c", point.temperature_c);
  reader.Get("throttle_reason", point.throttle_reason);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return point;
}

}  // namespace

absl::StatusOr<std::vector<DutyPoint>> MeasureDuty(Device& device, TimedPair& pair,
                                                   const DutyOptions& options, Clock& clock,
                                                   const SleepFor& sleep) {
  return DutyRun(device, pair, options, clock, sleep).Run();
}

absl::StatusOr<std::vector<DutyPoint>> MeasureDuty(Device& device, TimedPair& pair,
                                                   const DutyOptions& options, Clock& clock) {
  return MeasureDuty(device, pair, options, clock,
                     [](nanoseconds duration) { std::this_thread::sleep_for(duration); });
}

nlohmann::json ToJson(const std::vector<DutyPoint>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const DutyPoint& point : points) list.push_back(PointJson(point));
  return list;
}

absl::StatusOr<std::vector<DutyPoint>> DutyPointsFromJson(const nlohmann::json& json) {
  if (!json.is_array()) return absl::InvalidArgumentError("duty points: must be a list");
  std::vector<DutyPoint> points;
  for (const nlohmann::json& entry : json) {
    FETTLE_ASSIGN_OR_RETURN(points.emplace_back(), PointFromJson(entry));
  }
  return points;
}

}  // namespace fettle
