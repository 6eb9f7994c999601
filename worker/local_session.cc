// SPDX-License-Identifier: Apache-2.0
#include "worker/local_session.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "worker/time_case.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kHealthBytes = 1 << 20;
constexpr std::chrono::seconds kHealthLimit{10};

absl::Status Unhealthy(const std::string& what) {
  return absl::AbortedError(fmt::format("the device failed its health check: {}", what));
}

}  // namespace

LocalSession::LocalSession(Device& device, Clock& clock, Options options)
    : device_(device),
      clock_(clock),
      options_(std::move(options)),
      cases_(device, options_.guard_key) {}

void LocalSession::LimitLaunches(nanoseconds limit) {
  if (options_.set_launch_limit) options_.set_launch_limit(limit);
}

absl::StatusOr<LocalSession::Loaded*> LocalSession::FindModule(std::int64_t module) {
  const auto found = modules_.find(module);
  if (found == modules_.end()) {
    return absl::InvalidArgumentError(fmt::format("no module {} is loaded", module));
  }
  return &found->second;
}

absl::StatusOr<std::int64_t> LocalSession::LoadModule(std::string_view code_object,
                                                      const std::vector<std::string>& symbols) {
  FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceModule> module, device_.Load(code_object, symbols));
  const std::int64_t id = next_module_++;
  modules_[id] = {std::move(module), std::string(code_object), symbols};
  return id;
}

absl::Status LocalSession::UnloadModule(std::int64_t module) {
  FETTLE_RETURN_IF_ERROR(FindModule(module).status());
  modules_.erase(module);
  return absl::OkStatus();
}

absl::StatusOr<RunObservation> LocalSession::RunCase(const RunRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const Loaded* const loaded, FindModule(request.kernel.module));
  LimitLaunches(request.launch_limit);
  timed_.reset();
  return cases_.Run(request, *loaded->module);
}

absl::StatusOr<TimeObservation> LocalSession::TimeCase(const TimeRequest& request) {
  FETTLE_ASSIGN_OR_RETURN(const Loaded* const loaded_a, FindModule(request.a.module));
  FETTLE_ASSIGN_OR_RETURN(const Loaded* const loaded_b, FindModule(request.b.module));
  LimitLaunches(request.launch_limit);
  // Loaded anew: what launches before left in a module's variables is not there.
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> a,
                          device_.Load(loaded_a->code_object, loaded_a->symbols));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> b,
                          device_.Load(loaded_b->code_object, loaded_b->symbols));
  timed_.reset();
  cases_.Clear();
  const std::int64_t memory =
      options_.memory_bytes > 0 ? options_.memory_bytes : device_.info().memory_bytes / 4;
  return TimeOneCase(device_, clock_, cases_.inputs(), request, *a, *b, memory, &timed_);
}

absl::StatusOr<std::vector<std::vector<std::uint8_t>>> LocalSession::FetchOutputs(
    const std::vector<std::vector<std::int64_t>>& rows) {
  if (device_.info().target.vendor == Vendor::kCpu) {
    return absl::FailedPreconditionError("a kernel on the cpu can reach outputs after its call");
  }
  return timed_ != nullptr ? timed_->Fetch(rows) : cases_.Fetch(rows);
}

// A pattern goes in, moves on the device and comes back; a spin takes the time it was asked for.
absl::Status LocalSession::CheckHealth() {
  LimitLaunches(kHealthLimit);
  std::vector<std::uint8_t> pattern(kHealthBytes), back(kHealthBytes);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = static_cast<std::uint8_t>((i * 2654435761U) >> 13);
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> first = device_.Allocate(kHealthBytes);
  if (!first.ok()) return Unhealthy(std::string(first.status().message()));
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> second = device_.Allocate(kHealthBytes);
  if (!second.ok()) return Unhealthy(std::string(second.status().message()));
  absl::Status status = device_.CopyIn(**first, 0, pattern);
  if (status.ok()) status = device_.Fill(**second, 0, kHealthBytes, 0);
  if (status.ok()) status = device_.CopyDevice(**second, 0, **first, 0, kHealthBytes);
  if (status.ok()) status = device_.Spin(std::chrono::microseconds(100));
  if (status.ok()) status = device_.Synchronize(kHealthLimit);
  if (status.ok()) status = device_.CopyOut(**second, 0, back);
  if (!status.ok()) return Unhealthy(std::string(status.message()));
  return back == pattern ? absl::OkStatus() : Unhealthy("a copied pattern came back changed");
}

}  // namespace fettle
