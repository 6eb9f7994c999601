// SPDX-License-Identifier: Apache-2.0
#include "cli/proposals_client.h"

#include <grpcpp/client_context.h>

#include "core/status_macros.h"
#include "fettle/v1/proposals.grpc.pb.h"
#include "proto/channel.h"

namespace fettle {
namespace {

using std::chrono::seconds;

constexpr seconds kQuick(30);
constexpr seconds kWait(65);      // The server waits up to 50 s.
constexpr seconds kTry(15 * 60);  // Waits for a device.
constexpr std::string_view kTokenPrefix = "fpt-";

// "fpt-JOB-SECRET".
std::string JobOfToken(const std::string& token) {
  if (!token.starts_with(kTokenPrefix)) return "";
  const std::size_t dash = token.rfind('-');
  return dash <= kTokenPrefix.size()
             ? ""
             : token.substr(kTokenPrefix.size(), dash - kTokenPrefix.size());
}

class GrpcProposalsClient final : public ProposalsClient {
 public:
  using Stub = v1::Proposals::Stub;
  GrpcProposalsClient(const EndpointOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : endpoint_(options.endpoint),
        job_(JobOfToken(options.token)),
        stub_(v1::Proposals::NewStub(channel)) {}

  std::string token_job() const override { return job_; }

  absl::StatusOr<std::string> CreateToken(const std::string& job_id) override {
    v1::CreateProposeTokenRequest request;
    request.set_job_id(job_id);
    FETTLE_ASSIGN_OR_RETURN(
        const auto response,
        (Call<v1::CreateProposeTokenResponse>(&Stub::CreateProposeToken, request, kQuick, {})));
    return response.token();
  }
  absl::StatusOr<std::string> GetRecording(const std::string& job_id) override {
    v1::GetRecordingRequest request;
    request.set_job_id(job_id);
    FETTLE_ASSIGN_OR_RETURN(const auto response, (Call<v1::GetRecordingResponse>(
                                                     &Stub::GetRecording, request, kQuick, {})));
    return response.recording_json();
  }
  absl::StatusOr<v1::GetBriefResponse> GetBrief(const v1::GetBriefRequest& request,
                                                std::stop_token stop) override {
    return Call<v1::GetBriefResponse>(&Stub::GetBrief, request, kQuick, std::move(stop));
  }
  absl::StatusOr<v1::ProposeResponse> Propose(const v1::ProposeRequest& request,
                                              std::stop_token stop) override {
    return Call<v1::ProposeResponse>(&Stub::Propose, request, kQuick, std::move(stop));
  }
  absl::StatusOr<v1::WaitProposalResponse> Wait(const v1::WaitProposalRequest& request,
                                                std::stop_token stop) override {
    return Call<v1::WaitProposalResponse>(&Stub::WaitProposal, request, kWait, std::move(stop));
  }
  absl::StatusOr<v1::TryProposalResponse> Try(const v1::TryProposalRequest& request,
                                              std::stop_token stop) override {
    return Call<v1::TryProposalResponse>(&Stub::TryProposal, request, kTry, std::move(stop));
  }
  absl::StatusOr<v1::ClaimDirectionResponse> Claim(const v1::ClaimDirectionRequest& request,
                                                   std::stop_token stop) override {
    return Call<v1::ClaimDirectionResponse>(&Stub::ClaimDirection, request, kQuick,
                                            std::move(stop));
  }
  absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const v1::ListAttemptsRequest& request,
                                                        std::stop_token stop) override {
    return Call<v1::ListAttemptsResponse>(&Stub::ListAttempts, request, kQuick, std::move(stop));
  }
  absl::StatusOr<v1::ShowAttemptResponse> ShowAttempt(const v1::ShowAttemptRequest& request,
                                                      std::stop_token stop) override {
    return Call<v1::ShowAttemptResponse>(&Stub::ShowAttempt, request, kQuick, std::move(stop));
  }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, seconds limit, std::stop_token stop) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (stop.stop_requested()) return absl::CancelledError("the call was interrupted");
    return FromGrpcStatus(status, endpoint_);
  }

  const std::string endpoint_;
  const std::string job_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProposalsClient>> ProposalsClient::Connect(
    const ConnectionFlags& flags) {
  FETTLE_ASSIGN_OR_RETURN(const EndpointOptions options, flags.Resolve());
  FETTLE_ASSIGN_OR_RETURN(auto channel, OpenChannel(options));
  return std::make_unique<GrpcProposalsClient>(options, channel);
}

}  // namespace fettle
