// SPDX-License-Identifier: Apache-2.0
#include "server/errors.h"

#include <fmt/format.h>

#include "core/text.h"

namespace fettle::errors {

absl::Status BadField(std::string_view field, std::string_view remedy) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", field, remedy));
}

absl::Status TooLong(std::string_view field, std::size_t size, std::size_t limit) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {} bytes; at most {} are accepted", field, size, limit));
}

absl::Status NoSuchJob(std::string_view id) {
  return absl::NotFoundError(
      fmt::format("job_id: no job {}; `fettle jobs` lists them", CutText(id, 80)));
}

absl::Status NoSuchVariant(std::string_view id) {
  return absl::NotFoundError(
      fmt::format("variant_id: no variant {}; `fettle variants` lists them", CutText(id, 80)));
}

absl::Status NoSuchCandidate(std::string_view job_id, std::string_view digest) {
  return absl::NotFoundError(
      fmt::format("digest: job {} has no candidate {}", job_id, digest.substr(0, 80)));
}

absl::Status WrongJobState(std::string_view id, std::string_view state, std::string_view action) {
  return absl::FailedPreconditionError(
      fmt::format("cannot {} job {}: it is {}", action, id, state));
}

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down; try again once it is back");
}

absl::Status NoWorkerFor(std::string_view target) {
  return absl::UnavailableError(
      fmt::format("no connected worker runs target {}; start one with `fettle worker`", target));
}

}  // namespace fettle::errors
