// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer_service.h"

#include "core/status_macros.h"
#include "server/blob_reactors.h"
#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/unary.h"
#include "server/watch_reactor.h"

namespace fettle {
namespace {

class RefusedWatch final : public grpc::ServerWriteReactor<v1::JobEvent> {
 public:
  explicit RefusedWatch(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

OptimizerService::Unary* OptimizerService::Run(Context* context, AccessRole needed,
                                               std::function<absl::Status()> body) {
  return RunUnary(parts_.executor, context, parts_.access, needed, std::move(body));
}

OptimizerService::Unary* OptimizerService::SubmitJob(Context* context,
                                                     const v1::SubmitJobRequest* request,
                                                     v1::SubmitJobResponse* response) {
  return Run(context, AccessRole::kOperate, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_job(), calls_.SubmitJob(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::GetJob(Context* context,
                                                  const v1::GetJobRequest* request,
                                                  v1::GetJobResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_job(), calls_.GetJob(request->job_id()));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::ListJobs(Context* context,
                                                    const v1::ListJobsRequest* request,
                                                    v1::ListJobsResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response, calls_.ListJobs(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::CancelJob(Context* context,
                                                     const v1::CancelJobRequest* request,
                                                     v1::CancelJobResponse* response) {
  return Run(context, AccessRole::kOperate, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_job(), calls_.CancelJob(request->job_id()));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::ResumeJob(Context* context,
                                                     const v1::ResumeJobRequest* request,
                                                     v1::ResumeJobResponse* response) {
  return Run(context, AccessRole::kOperate, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_job(), calls_.ResumeJob(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::ListEvents(Context* context,
                                                      const v1::ListEventsRequest* request,
                                                      v1::ListEventsResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response, calls_.ListEvents(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::ListCandidates(Context* context,
                                                          const v1::ListCandidatesRequest* request,
                                                          v1::ListCandidatesResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response, calls_.ListCandidates(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::GetCandidate(Context* context,
                                                        const v1::GetCandidateRequest* request,
                                                        v1::GetCandidateResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_candidate(), calls_.GetCandidate(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::ListVariants(Context* context,
                                                        const v1::ListVariantsRequest* request,
                                                        v1::ListVariantsResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response, calls_.ListVariants(*request));
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::GetVariant(Context* context,
                                                      const v1::GetVariantRequest* request,
                                                      v1::GetVariantResponse* response) {
  return Run(context, AccessRole::kRead, [this, request, response]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(*response->mutable_variant(), calls_.GetVariant(request->variant_id()));
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::JobEvent>* OptimizerService::WatchJob(
    Context* context, const v1::WatchJobRequest* request) {
  absl::Status refused = parts_.access.Check(*context, AccessRole::kRead);
  if (refused.ok()) refused = CheckId("job_id", request->job_id());
  if (refused.ok() && request->after_sequence() < 0) {
    refused = errors::BadField("after_sequence", "must not be negative");
  }
  if (!refused.ok()) return new RefusedWatch(refused);
  return WatchReactor::Start(parts_.store, parts_.events, parts_.executor, request->job_id(),
                             request->after_sequence());
}

grpc::ServerWriteReactor<v1::BlobChunk>* OptimizerService::ExportBundle(
    Context* context, const v1::ExportBundleRequest* request) {
  if (absl::Status allowed = parts_.access.Check(*context, AccessRole::kRead); !allowed.ok()) {
    return RefuseSend(allowed);
  }
  return SendBytes(parts_.long_calls, [this, copy = *request]() -> absl::StatusOr<std::string> {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, calls_.Bundle(copy));
    return PackBundle(files);
  });
}

grpc::ServerWriteReactor<v1::BlobChunk>* OptimizerService::ReadBlob(
    Context* context, const v1::ReadBlobRequest* request) {
  if (absl::Status allowed = parts_.access.Check(*context, AccessRole::kRead); !allowed.ok()) {
    return RefuseSend(allowed);
  }
  return SendBytes(parts_.executor,
                   [this, digest = request->digest()] { return parts_.store.blobs().Get(digest); });
}

OptimizerService::Unary* OptimizerService::ListWorkers(Context* context,
                                                       const v1::ListWorkersRequest*,
                                                       v1::ListWorkersResponse* response) {
  return Run(context, AccessRole::kRead, [this, response]() -> absl::Status {
    *response = calls_.ListWorkers();
    return absl::OkStatus();
  });
}

OptimizerService::Unary* OptimizerService::GetServerInfo(Context* context,
                                                         const v1::GetServerInfoRequest*,
                                                         v1::GetServerInfoResponse* response) {
  return Run(context, AccessRole::kRead, [this, response]() -> absl::Status {
    *response = calls_.GetServerInfo();
    return absl::OkStatus();
  });
}

}  // namespace fettle
