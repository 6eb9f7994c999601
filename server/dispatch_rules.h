// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a worker may be given, for the parts of the dispatcher.

#include <string>
#include <string_view>

#include "server/dispatcher.h"

namespace fettle::dispatch {

inline bool Serves(const WorkerView& worker, const std::string& job_id) {
  return worker.job_id.empty() || worker.job_id == job_id;
}

inline bool HasToolchain(const WorkerView& worker, const std::string& target,
                         const std::string& toolchain) {
  if (toolchain.empty()) return true;
  const auto found = worker.toolchains.find(target);
  return found != worker.toolchains.end() && found->second == toolchain;
}

// The name under which a worker without a device compiles a unit.
inline constexpr std::string_view kAheadSuffix = "/ahead";
inline bool IsAheadId(std::string_view id) { return id.ends_with(kAheadSuffix); }

}  // namespace fettle::dispatch
