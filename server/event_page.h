// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <absl/status/statusor.h>

#include "fettle/v1/optimizer.pb.h"
#include "store/store.h"

namespace fettle {

// Some of a job's events, oldest first, for readers that keep a cursor.
struct EventPage {
  std::deque<v1::JobEvent> events;
  bool more = false;   // The store holds later ones.
  bool ended = false;  // Nothing follows: the job's terminal event is at or before the page's end.
};

// At most `limit` events with sequence > `after`. kNotFound: no such job.
absl::StatusOr<EventPage> ReadEventPage(const Store& store, const std::string& job_id,
                                        std::int64_t after, int limit);

}  // namespace fettle
