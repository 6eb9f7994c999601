// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>

#include "cli/client.h"
#include "fettle/v1/proposals.pb.h"

namespace fettle {

// Calls of the Proposals service, each with a deadline. Errors keep the server's code, message and
// stable name (ErrorCodeOf). `stop` ends a call at once with kCancelled. Thread-safe.
class ProposalsClient {
 public:
  // As OptimizerClient::Connect.
  static absl::StatusOr<std::unique_ptr<ProposalsClient>> Connect(const ConnectionFlags& flags);
  virtual ~ProposalsClient() = default;

  // The job that the connection's propose token is for; empty: another token, or none.
  virtual std::string token_job() const = 0;

  virtual absl::StatusOr<std::string> CreateToken(const std::string& job_id) = 0;
  virtual absl::StatusOr<std::string> GetRecording(const std::string& job_id) = 0;
  virtual absl::StatusOr<v1::GetBriefResponse> GetBrief(const v1::GetBriefRequest& request,
                                                        std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::ProposeResponse> Propose(const v1::ProposeRequest& request,
                                                      std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::WaitProposalResponse> Wait(const v1::WaitProposalRequest& request,
                                                        std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::TryProposalResponse> Try(const v1::TryProposalRequest& request,
                                                      std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::ClaimDirectionResponse> Claim(const v1::ClaimDirectionRequest& request,
                                                           std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(
      const v1::ListAttemptsRequest& request, std::stop_token stop) = 0;
  virtual absl::StatusOr<v1::ShowAttemptResponse> ShowAttempt(const v1::ShowAttemptRequest& request,
                                                              std::stop_token stop) = 0;
};

}  // namespace fettle
