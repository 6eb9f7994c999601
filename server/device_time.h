// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <absl/status/status.h>

#include "store/records.h"
#include "store/store.h"

namespace fettle {

// Whether the job's budget of device time has room for a try outside its candidates. What is under
// way (the job's own units, and `open_tries`) and the new one are reserved at the longest unit of
// the job so far. kResourceExhausted says what is left.
absl::Status DeviceTimeLeft(Store& store, const JobRow& job, std::int64_t open_tries);

}  // namespace fettle
