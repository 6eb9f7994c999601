// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "core/task.h"

namespace fettle {

struct TaskFolderLimits {
  std::int64_t file_bytes = 64 << 20;
  std::int64_t total_bytes = 256 << 20;
  int files = 1000;
  int depth = 8;
};

// Reads a task folder: every regular file below `path`, by its path relative to it. Hidden entries
// (names that start with a dot) are left out. Symbolic links are followed only while they stay
// inside the folder.
//
// Errors, each naming the path and what to do:
//   kInvalidArgument      not a folder, a link that leaves the folder or loops, an
//                         entry that is neither file nor folder, too deep
//   kFailedPrecondition   no task.yaml
//   kResourceExhausted    more files or bytes than the limits
//   kPermissionDenied     an entry that cannot be read
absl::StatusOr<TaskFiles> ReadTaskFolder(const std::string& path,
                                         const TaskFolderLimits& limits = {});

// The bytes of one file; errors as above, kInvalidArgument also where there is none.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::int64_t limit_bytes);

// Writes `bytes` to `path` through a temporary file beside it and a rename. kUnavailable: the disk
// said no.
absl::Status WriteFile(const std::string& path, const std::string& bytes);

}  // namespace fettle
