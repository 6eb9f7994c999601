// SPDX-License-Identifier: Apache-2.0
#include "cli/subcommand.h"

namespace fettle {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
      return ExitCode::kNo;
    default:
      return ExitCode::kUnavailable;
  }
}

}  // namespace fettle
