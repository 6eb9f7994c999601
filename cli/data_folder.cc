// SPDX-License-Identifier: Apache-2.0
#include "cli/data_folder.h"

#include "cli/subcommand.h"
#include "core/status_macros.h"

namespace fettle {

absl::StatusOr<std::unique_ptr<Store>> OpenDataFolder(const std::string& path, bool create) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open({.data_dir = path, .create = create});
  if (!store.ok()) return CannotOpen(store.status());
  return store;
}

absl::Status CannotOpen(const absl::Status& status) {
  return ExitCodeOf(status) == ExitCode::kNo ? absl::UnavailableError(StatusText(status)) : status;
}

}  // namespace fettle
