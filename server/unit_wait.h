// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include <absl/status/statusor.h>

#include "core/work_unit.h"
#include "server/dispatcher.h"

namespace fettle {

// Runs one unit outside any job and waits for its result on the calling thread. kCancelled: `stop`;
// kUnavailable: given up after its attempts; kInternal: the result cannot be read.
// `charge`: UnitTicket::charge, also after this has returned.
absl::StatusOr<UnitResult> RunUnit(Dispatcher& dispatcher, WorkUnit unit, std::stop_token stop,
                                   std::function<void(std::int64_t, bool)> charge);

}  // namespace fettle
