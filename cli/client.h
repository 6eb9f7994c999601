// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "fettle/v1/optimizer.pb.h"
#include "proto/channel.h"

namespace fettle {

// How a command reaches the server. What a flag leaves open comes from the environment, the client
// file or the defaults (proto/channel.h).
struct ConnectionFlags {
  std::string endpoint;  // "unix:/path", "host:port"
  std::string token_file;
  std::string ca_file;
  std::string data;  // Data folder whose server is meant.

  void Declare(FlagSet& flags);
  // Whether the command line names a server.
  bool given() const { return !endpoint.empty() || !data.empty(); }
  // The flags with what environment, client file and defaults add. Errors as ResolveEndpoint.
  absl::StatusOr<EndpointOptions> Resolve() const;
};

// Calls of the Optimizer service, each with a deadline. Errors have the server's code and message;
// kUnavailable names the endpoint and how to start a server there. Thread-safe.
class OptimizerClient {
 public:
  // kInvalidArgument, kPermissionDenied, kNotFound: the connection's options or files are wrong.
  // Connects on the first call.
  static absl::StatusOr<std::unique_ptr<OptimizerClient>> Connect(const ConnectionFlags& flags);
  virtual ~OptimizerClient() = default;

  virtual absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs(int limit) = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest& request) = 0;
  // Calls `on_event` for each event after `after_sequence` until the terminal one, `stop`, or an
  // error. OK: the stream ended by itself. kCancelled: `stop` was requested.
  virtual absl::Status WatchJob(const std::string& id, std::int64_t after_sequence,
                                const std::function<void(const v1::JobEvent&)>& on_event,
                                std::stop_token stop) = 0;
  virtual absl::StatusOr<std::vector<v1::Candidate>> ListCandidates(const std::string& job_id,
                                                                    const std::string& verdict,
                                                                    int limit) = 0;
  virtual absl::StatusOr<v1::Candidate> GetCandidate(const std::string& job_id,
                                                     const std::string& digest) = 0;
  virtual absl::StatusOr<std::vector<v1::Variant>> ListVariants(
      const v1::ListVariantsRequest& request, int limit) = 0;
  virtual absl::StatusOr<v1::Variant> GetVariant(const std::string& id) = 0;
  virtual absl::StatusOr<v1::CheckTaskResponse> CheckTask(const v1::CheckTaskRequest& request) = 0;
  virtual absl::StatusOr<std::string> TryKernel(const v1::TryKernelRequest& request) = 0;
  // The stream's bytes, checked against its digest. kDataLoss: they differ.
  virtual absl::StatusOr<std::string> ExportBundle(const v1::ExportBundleRequest& request) = 0;
  virtual absl::StatusOr<std::vector<v1::Worker>> ListWorkers() = 0;
  virtual absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo() = 0;
};

}  // namespace fettle
