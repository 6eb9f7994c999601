// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "store/store.h"

namespace fettle {

// The store of a data folder, for commands that work on it with the server stopped. `create`: makes
// what is missing. All errors are those of CannotOpen.
absl::StatusOr<std::unique_ptr<Store>> OpenDataFolder(const std::string& path, bool create);

// Why a data folder cannot be used now: a newer program wrote it, it is damaged, in use, or not
// there. As with `fettle serve` that is no answer to what was asked, so that it is kUnavailable
// (exit code 3) unless it has a code of the kind already.
absl::Status CannotOpen(const absl::Status& status);

}  // namespace fettle
