// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "cli/terminal.h"

namespace fettle {

// What the shell sees.
enum class ExitCode : int {
  kOk = 0,
  kNo = 1,           // The answer is no: failed check, no win, verification failed.
  kUsage = 2,        // The command line is wrong.
  kUnavailable = 3,  // Server, device, compiler or disk could not do it now.
};

// How an error that a subcommand returns leaves the program.
ExitCode ExitCodeOf(const absl::Status& status);

class Subcommand;

struct Context {
  Terminal& terminal;
  std::stop_token stop;  // Requested by SIGINT or SIGTERM.
  std::string program;   // Path of this binary.
  const std::vector<std::unique_ptr<Subcommand>>& subcommands;
};

// One command of the binary. Declares its flags, then runs once.
class Subcommand {
 public:
  virtual ~Subcommand() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;            // One line.
  virtual std::string details() const { return ""; }  // Below the flags in --help.
  virtual void Declare(FlagSet& flags) = 0;
  // Whether Run deals with SIGINT and SIGTERM itself; `Context::stop` is then never requested, and
  // the process has one thread when Run begins.
  virtual bool handles_signals() const { return false; }
  // Errors are printed by the caller as "fettle NAME: message".
  virtual absl::StatusOr<ExitCode> Run(Context& context) = 0;
};

}  // namespace fettle
