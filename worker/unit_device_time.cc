// SPDX-License-Identifier: Apache-2.0
#include "worker/unit_device_time.h"

#include <charconv>
#include <string>
#include <utility>

#include <absl/strings/cord.h>

namespace fettle {
namespace {

constexpr char kUrl[] = "fettle/device-ns";

}  // namespace

absl::Status WithDeviceNs(absl::Status status, std::int64_t device_ns) {
  status.SetPayload(kUrl, absl::Cord(std::to_string(device_ns)));
  return status;
}

std::int64_t DeviceNsOf(const absl::Status& status) {
  std::int64_t device_ns = 0;
  if (const auto payload = status.GetPayload(kUrl)) {
    const std::string text(*payload);
    std::from_chars(text.data(), text.data() + text.size(), device_ns);
  }
  return device_ns;
}

}  // namespace fettle
