// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <absl/status/status.h>
#include <grpcpp/support/server_callback.h>

#include "fettle/v1/optimizer.grpc.pb.h"
#include "server/access.h"
#include "server/optimizer_calls.h"

namespace fettle {

// The gRPC frontend for clients.
class OptimizerService final : public v1::Optimizer::CallbackService {
 public:
  // `calls` outlives the service.
  explicit OptimizerService(const OptimizerCalls& calls) : calls_(calls), parts_(calls.parts()) {}

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* SubmitJob(Context*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  Unary* GetJob(Context*, const v1::GetJobRequest*, v1::GetJobResponse*) override;
  Unary* ListJobs(Context*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  Unary* CancelJob(Context*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override;
  Unary* ResumeJob(Context*, const v1::ResumeJobRequest*, v1::ResumeJobResponse*) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(Context*, const v1::WatchJobRequest*) override;
  Unary* ListEvents(Context*, const v1::ListEventsRequest*, v1::ListEventsResponse*) override;
  Unary* ListCandidates(Context*, const v1::ListCandidatesRequest*,
                        v1::ListCandidatesResponse*) override;
  Unary* GetCandidate(Context*, const v1::GetCandidateRequest*, v1::GetCandidateResponse*) override;
  Unary* ListVariants(Context*, const v1::ListVariantsRequest*, v1::ListVariantsResponse*) override;
  Unary* GetVariant(Context*, const v1::GetVariantRequest*, v1::GetVariantResponse*) override;
  Unary* CheckTask(Context*, const v1::CheckTaskRequest*, v1::CheckTaskResponse*) override;
  Unary* TryKernel(Context*, const v1::TryKernelRequest*, v1::TryKernelResponse*) override;
  grpc::ServerWriteReactor<v1::BlobChunk>* ExportBundle(Context*,
                                                        const v1::ExportBundleRequest*) override;
  grpc::ServerWriteReactor<v1::BlobChunk>* ReadBlob(Context*, const v1::ReadBlobRequest*) override;
  Unary* ListWorkers(Context*, const v1::ListWorkersRequest*, v1::ListWorkersResponse*) override;
  Unary* GetServerInfo(Context*, const v1::GetServerInfoRequest*,
                       v1::GetServerInfoResponse*) override;

 private:
  Unary* Run(Context* context, AccessRole needed, std::function<absl::Status()> body);

  const OptimizerCalls& calls_;
  const OptimizerParts& parts_;
};

}  // namespace fettle
