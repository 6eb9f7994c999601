// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "compiler/gpu/rtc_wire.h"

namespace fettle {

// A running fettle-compiled (compiled_main.cc). Thread-safe: each compile is a process of its own.
class ForkServer {
 public:
  // Starts `argv`, which must end in fettle-compiled and its arguments, with exactly `environment`,
  // and waits until its library is loaded. kUnavailable: it does not start, or there is no library
  // (the message says what was tried).
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(std::vector<std::string> argv,
                                                           std::vector<std::string> environment);
  // Ends the server and every compile that still runs.
  virtual ~ForkServer() = default;

  virtual const rtc::Hello& hello() const = 0;

  // Precompiles the request's prefix for compiles to come with the same prefix, headers and options;
  // its source must launch nothing. Others wait meanwhile. The library's result as in Compile.
  virtual absl::StatusOr<rtc::Ending> Prepare(const rtc::Request& request,
                                              std::stop_token stop) = 0;

  // Runs one compile to the child's end, whatever that is; the child enforces the request's limits.
  // kCancelled: `stop`. kUnavailable: the server is gone; start another.
  virtual absl::StatusOr<rtc::Ending> Compile(const rtc::Request& request,
                                              std::stop_token stop) = 0;
};

}  // namespace fettle
