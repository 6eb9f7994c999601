// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include <absl/status/statusor.h>

#include "core/work_unit.h"
#include "server/dispatcher.h"

namespace fettle {

// Runs one unit outside any job and waits for its result on the calling thread. kCancelled: `stop`;
// kUnavailable: given up after its attempts; kInternal: the result cannot be read.
absl::StatusOr<UnitResult> RunUnit(Dispatcher& dispatcher, WorkUnit unit, std::stop_token stop);

}  // namespace fettle
