// SPDX-License-Identifier: Apache-2.0
#include "cli/client.h"

#include <chrono>
#include <utility>

#include <grpcpp/client_context.h>

#include "cli/paths.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "fettle/v1/optimizer.grpc.pb.h"
#include "proto/channel.h"

namespace fettle {
namespace {

using std::chrono::seconds;

constexpr seconds kQuick(10);
constexpr seconds kSlow(15 * 60);  // A check or a try waits for a device.
constexpr int kPageSize = 200;

class GrpcOptimizerClient final : public OptimizerClient {
 public:
  GrpcOptimizerClient(std::string endpoint, const std::shared_ptr<grpc::Channel>& channel)
      : endpoint_(std::move(endpoint)), stub_(v1::Optimizer::NewStub(channel)) {}

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request) override {
    FETTLE_ASSIGN_OR_RETURN(
        auto response,
        Call<v1::SubmitJobResponse>(&v1::Optimizer::Stub::SubmitJob, request, seconds(60)));
    return response.job();
  }
  absl::StatusOr<v1::Job> GetJob(const std::string& id) override {
    v1::GetJobRequest request;
    request.set_job_id(id);
    FETTLE_ASSIGN_OR_RETURN(
        auto response, Call<v1::GetJobResponse>(&v1::Optimizer::Stub::GetJob, request, kQuick));
    return response.job();
  }
  absl::StatusOr<std::vector<v1::Job>> ListJobs(int limit) override {
    return Pages<v1::Job, v1::ListJobsResponse>(
        &v1::Optimizer::Stub::ListJobs, v1::ListJobsRequest(), limit,
        [](const v1::ListJobsResponse& page) -> const auto& { return page.jobs(); });
  }
  absl::StatusOr<v1::Job> CancelJob(const std::string& id) override {
    v1::CancelJobRequest request;
    request.set_job_id(id);
    FETTLE_ASSIGN_OR_RETURN(auto response, Call<v1::CancelJobResponse>(
                                               &v1::Optimizer::Stub::CancelJob, request, kQuick));
    return response.job();
  }
  absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest& request) override {
    FETTLE_ASSIGN_OR_RETURN(auto response, Call<v1::ResumeJobResponse>(
                                               &v1::Optimizer::Stub::ResumeJob, request, kQuick));
    return response.job();
  }
  absl::Status WatchJob(const std::string& id, std::int64_t after_sequence,
                        const std::function<void(const v1::JobEvent&)>& on_event,
                        std::stop_token stop) override;
  absl::StatusOr<std::vector<v1::Candidate>> ListCandidates(const std::string& job_id,
                                                            const std::string& verdict,
                                                            int limit) override {
    v1::ListCandidatesRequest request;
    request.set_job_id(job_id);
    request.set_verdict(verdict);
    return Pages<v1::Candidate, v1::ListCandidatesResponse>(
        &v1::Optimizer::Stub::ListCandidates, request, limit,
        [](const v1::ListCandidatesResponse& page) -> const auto& { return page.candidates(); });
  }
  absl::StatusOr<v1::Candidate> GetCandidate(const std::string& job_id,
                                             const std::string& digest) override {
    v1::GetCandidateRequest request;
    request.set_job_id(job_id);
    request.set_digest(digest);
    FETTLE_ASSIGN_OR_RETURN(
        auto response,
        Call<v1::GetCandidateResponse>(&v1::Optimizer::Stub::GetCandidate, request, kQuick));
    return response.candidate();
  }
  absl::StatusOr<std::vector<v1::Variant>> ListVariants(const v1::ListVariantsRequest& request,
                                                        int limit) override {
    return Pages<v1::Variant, v1::ListVariantsResponse>(
        &v1::Optimizer::Stub::ListVariants, request, limit,
        [](const v1::ListVariantsResponse& page) -> const auto& { return page.variants(); });
  }
  absl::StatusOr<v1::Variant> GetVariant(const std::string& id) override {
    v1::GetVariantRequest request;
    request.set_variant_id(id);
    FETTLE_ASSIGN_OR_RETURN(auto response, Call<v1::GetVariantResponse>(
                                               &v1::Optimizer::Stub::GetVariant, request, kQuick));
    return response.variant();
  }
  absl::StatusOr<v1::CheckTaskResponse> CheckTask(const v1::CheckTaskRequest& request) override {
    return Call<v1::CheckTaskResponse>(&v1::Optimizer::Stub::CheckTask, request, kSlow);
  }
  absl::StatusOr<std::string> TryKernel(const v1::TryKernelRequest& request) override {
    FETTLE_ASSIGN_OR_RETURN(auto response, Call<v1::TryKernelResponse>(
                                               &v1::Optimizer::Stub::TryKernel, request, kSlow));
    return response.result_json();
  }
  absl::StatusOr<std::string> ExportBundle(const v1::ExportBundleRequest& request) override;
  absl::StatusOr<std::vector<v1::Worker>> ListWorkers() override {
    FETTLE_ASSIGN_OR_RETURN(auto response,
                            Call<v1::ListWorkersResponse>(&v1::Optimizer::Stub::ListWorkers,
                                                          v1::ListWorkersRequest(), kQuick));
    return std::vector<v1::Worker>(response.workers().begin(), response.workers().end());
  }
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo() override {
    return Call<v1::GetServerInfoResponse>(&v1::Optimizer::Stub::GetServerInfo,
                                           v1::GetServerInfoRequest(), kQuick);
  }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (v1::Optimizer::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&,
                                                                            Response*),
                                const Request& request, std::chrono::seconds limit) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status, endpoint_);
    return response;
  }

  // Every page, up to `limit` items (0: all).
  template <typename Item, typename Response, typename Request, typename Items>
  absl::StatusOr<std::vector<Item>> Pages(
      grpc::Status (v1::Optimizer::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      Request request, int limit, Items items) {
    std::vector<Item> result;
    do {
      const int left = limit - static_cast<int>(result.size());
      request.set_page_size(limit == 0 ? kPageSize : std::min(left, kPageSize));
      FETTLE_ASSIGN_OR_RETURN(const Response page, Call<Response>(method, request, kQuick));
      result.insert(result.end(), items(page).begin(), items(page).end());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty() &&
             (limit == 0 || static_cast<int>(result.size()) < limit));
    return result;
  }

  const std::string endpoint_;
  const std::unique_ptr<v1::Optimizer::Stub> stub_;
};

absl::Status GrpcOptimizerClient::WatchJob(const std::string& id, std::int64_t after_sequence,
                                           const std::function<void(const v1::JobEvent&)>& on_event,
                                           std::stop_token stop) {
  grpc::ClientContext context;
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  v1::WatchJobRequest request;
  request.set_job_id(id);
  request.set_after_sequence(after_sequence);
  const auto reader = stub_->WatchJob(&context, request);
  v1::JobEvent event;
  while (reader->Read(&event)) on_event(event);
  const grpc::Status status = reader->Finish();
  if (stop.stop_requested()) return absl::CancelledError("watching was interrupted");
  return FromGrpcStatus(status, endpoint_);
}

absl::StatusOr<std::string> GrpcOptimizerClient::ExportBundle(
    const v1::ExportBundleRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSlow);
  const auto reader = stub_->ExportBundle(&context, request);
  std::string bytes;
  std::string digest;
  v1::BlobChunk chunk;
  while (reader->Read(&chunk)) {
    bytes += chunk.data();
    if (!chunk.sha256().empty()) digest = chunk.sha256();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status, endpoint_);
  if (digest != Sha256Hex(bytes)) {
    return absl::DataLossError(
        "receive the bundle: its bytes do not match the server's digest; try again");
  }
  return bytes;
}

}  // namespace

void ConnectionFlags::Declare(FlagSet& flags) {
  flags.Flag("--endpoint", "ADDRESS", &endpoint,
             "server: unix:/path or host:port (FETTLE_ENDPOINT)");
  flags
      .Flag("--token-file", "FILE", &token_file,
            "file with the access token, mode 0600 (FETTLE_TOKEN_FILE)")
      .completes = Completes::kFile;
  flags.Flag("--ca", "FILE", &ca_file, "certificate to trust (FETTLE_CA_FILE)").completes =
      Completes::kFile;
  flags.Flag("--data-dir", "DIR", &data, "data folder whose server is meant (FETTLE_DATA_DIR)")
      .Alias("--data")
      .completes = Completes::kFolder;
}

absl::StatusOr<EndpointOptions> ConnectionFlags::Resolve() const {
  EndpointOptions options;
  options.endpoint = endpoint;
  options.token_file = token_file;
  options.ca_file = ca_file;
  // A data folder on the command line means its own server, whatever the environment says.
  if (options.endpoint.empty() && !data.empty()) {
    options.endpoint = SocketEndpoint(DataFolder(data));
  }
  return ResolveEndpoint(std::move(options));
}

absl::StatusOr<std::unique_ptr<OptimizerClient>> OptimizerClient::Connect(
    const ConnectionFlags& flags) {
  FETTLE_ASSIGN_OR_RETURN(const EndpointOptions options, flags.Resolve());
  FETTLE_ASSIGN_OR_RETURN(auto channel, OpenChannel(options));
  return std::make_unique<GrpcOptimizerClient>(options.endpoint, channel);
}

}  // namespace fettle
