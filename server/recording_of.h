// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <absl/status/statusor.h>

#include "agent/recording.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

// What a job's proposer did, as a recording: its candidates of the search stage in order and, for a
// job around a model, the answered calls.
absl::StatusOr<Recording> RecordingOf(const Store& store, const JobRow& job);

}  // namespace fettle
