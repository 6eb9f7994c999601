// SPDX-License-Identifier: Apache-2.0
#pragma once

// Devices that an emulator stands in for (docs/emulation.md): their runners start through a wrapper
// command.

#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "worker/sandbox.h"

namespace fettle {

// How the runner of one device is started.
struct Emulator {
  std::vector<std::string> command;      // Put before the runner; the first word is a program.
  std::vector<std::string> environment;  // "NAME=value".
  std::vector<std::string> read_only;    // Absolute paths that it needs beyond /usr.

  // The wrapped runner sees PATH=/usr/bin:/bin unless `environment` sets it.
  void ApplyTo(SandboxOptions& sandbox) const;
};

// Reads {"devices": {"hip:0": {"command": [...], "environment": {...}, "read_only": [...]}}}; by
// device id. kNotFound: no such file; kInvalidArgument names the field and what to write.
absl::StatusOr<std::map<std::string, Emulator>> ReadEmulators(const std::string& file);

}  // namespace fettle
