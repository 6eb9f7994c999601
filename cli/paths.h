// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/status.h>

namespace fettle {

// `flag` if given, else the default data folder (proto/channel.h), as an absolute path.
std::string DataFolder(const std::string& flag);

// The folder of this program's own binary.
std::string ProgramFolder();

// Makes `path` and its parents, mode 0700 for what is new. kUnavailable names the path.
absl::Status MakePrivateFolder(const std::string& path);

}  // namespace fettle
