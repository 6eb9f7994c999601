// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include <absl/status/statusor.h>

#include "device/runner_session.h"
#include "profiler/roofline.h"

namespace fettle {

// What the runner's loop serves.
struct RunnerHandlers {
  RunnerSession* session = nullptr;                    // Required; must outlive the loop.
  std::function<absl::StatusOr<Ceilings>()> ceilings;  // Set: measures, and loads no code.
};

// Answers requests on `socket` until the other side closes it (then OK). Any other status means
// that the channel itself failed. A request that the session refuses is answered, not an error
// here; after kAborted or kDeadlineExceeded the answer is sent and the status returned, because the
// device is unusable from then on.
absl::Status ServeRunner(int socket, const RunnerHandlers& handlers);

}  // namespace fettle
