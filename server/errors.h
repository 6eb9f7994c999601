// SPDX-License-Identifier: Apache-2.0
#pragma once

// Errors raised in more than one place: code and wording are decided here.

#include <cstddef>
#include <string>
#include <string_view>

#include <absl/status/status.h>

namespace fettle::errors {

// kInvalidArgument. `remedy` says what to write instead.
absl::Status BadField(std::string_view field, std::string_view remedy);
// kInvalidArgument.
absl::Status TooLong(std::string_view field, std::size_t size, std::size_t limit);
// kNotFound.
absl::Status NoSuchJob(std::string_view id);
absl::Status NoSuchVariant(std::string_view id);
absl::Status NoSuchCandidate(std::string_view job_id, std::string_view digest);
// kFailedPrecondition.
absl::Status WrongJobState(std::string_view id, std::string_view state, std::string_view action);
// kUnavailable.
absl::Status ShuttingDown();
// kUnavailable.
absl::Status NoWorkerFor(std::string_view target);

}  // namespace fettle::errors
