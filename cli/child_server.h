// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>
#include <sys/types.h>

namespace fettle {

// A `fettle serve` of our own, for the life of a demonstration.
class ChildServer {
 public:
  // Starts a server on `data` that logs to data/serve.log, and waits until it answers.
  // Null: another server took the folder meanwhile, and answers.
  // kUnavailable: it ended, or did not answer within 20 s; the message has the end of its log.
  static absl::StatusOr<std::unique_ptr<ChildServer>> Start(const std::string& data,
                                                            std::stop_token stop);
  // The link to its dashboard; empty: it has none.
  std::string dashboard_link() const;
  // SIGTERM, and SIGKILL after 10 s.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

 private:
  ChildServer() = default;
  std::string log_;
  pid_t pid_ = -1;
};

}  // namespace fettle
