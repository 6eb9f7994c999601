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

// Whether `compiler`, a worker without a device, can compile for a device of `worker`.
inline bool CompilesFor(const WorkerView& compiler, const WorkerView& worker) {
  if (!compiler.job_id.empty() && compiler.job_id != worker.job_id) return false;
  for (const OfferedDevice& device : worker.devices) {
    const auto wanted = worker.toolchains.find(device.target);
    const auto has = compiler.toolchains.find(device.target);
    if (wanted != worker.toolchains.end() && has != compiler.toolchains.end() &&
        wanted->second == has->second) {
      return true;
    }
  }
  return false;
}

// The name under which a worker without a device compiles a unit.
inline constexpr std::string_view kAheadSuffix = "/ahead";
inline bool IsAheadId(std::string_view id) { return id.ends_with(kAheadSuffix); }
// The unit of such a name.
inline std::string UnitOfAhead(std::string_view id) {
  return std::string(id.substr(0, id.size() - kAheadSuffix.size()));
}

}  // namespace fettle::dispatch
