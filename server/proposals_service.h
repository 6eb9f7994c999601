// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include "core/task.h"
#include "core/work_unit.h"
#include "fettle/v1/proposals.grpc.pb.h"
#include "judge/accept.h"
#include "server/access.h"
#include "server/dispatcher.h"
#include "server/event_hub.h"
#include "server/executor.h"
#include "server/job_manager.h"
#include "server/job_tokens.h"
#include "store/store.h"

namespace fettle {

// All of it outlives the service.
struct ProposalsParts {
  const Access& access;
  JobTokens& tokens;
  Store& store;
  Dispatcher& dispatcher;
  EventHub& events;
  JobManager& jobs;
  Executor& executor;
  Clock& clock;
  judge::AcceptanceRule rule;
};

// The service for proposers outside the server. What they send is hostile until proven otherwise.
class ProposalsService final : public v1::Proposals::CallbackService {
 public:
  explicit ProposalsService(ProposalsParts parts)
      : parts_(std::move(parts)),
        clock_base_ns_(parts_.clock.NowNs()),
        clock_start_(parts_.clock.Steady()) {}

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* CreateProposeToken(Context*, const v1::CreateProposeTokenRequest*,
                            v1::CreateProposeTokenResponse*) override;
  Unary* GetBrief(Context*, const v1::GetBriefRequest*, v1::GetBriefResponse*) override;
  Unary* Propose(Context*, const v1::ProposeRequest*, v1::ProposeResponse*) override;
  Unary* WaitProposal(Context*, const v1::WaitProposalRequest*, v1::WaitProposalResponse*) override;
  Unary* TryProposal(Context*, const v1::TryProposalRequest*, v1::TryProposalResponse*) override;
  Unary* ClaimDirection(Context*, const v1::ClaimDirectionRequest*,
                        v1::ClaimDirectionResponse*) override;
  Unary* ListAttempts(Context*, const v1::ListAttemptsRequest*, v1::ListAttemptsResponse*) override;
  Unary* ShowAttempt(Context*, const v1::ShowAttemptRequest*, v1::ShowAttemptResponse*) override;
  Unary* GetRecording(Context*, const v1::GetRecordingRequest*, v1::GetRecordingResponse*) override;

 private:
  // A kernel as a client described it.
  struct Resolved {
    KernelUnderTest kernel;
    std::string parent;  // Candidate digest; empty: the baseline.
  };

  Unary* Run(Context* context, AccessRole needed, const std::string& job_id,
             std::function<absl::Status()> body);
  absl::StatusOr<JobRow> Job(const std::string& id) const;
  // The job, which must run and take proposals.
  absl::StatusOr<JobRow> OpenJob(const std::string& id) const;
  absl::StatusOr<std::shared_ptr<const Task>> TaskOf(const JobRow& job);
  // The kernel that `name` means (KernelChange.parent), and its digest (empty: the baseline).
  absl::StatusOr<Resolved> Parent(const Task& task, const JobRow& job, const std::string& name);
  absl::StatusOr<Resolved> Resolve(const Task& task, const JobRow& job,
                                   const v1::KernelChange& change);
  absl::StatusOr<std::string> Bar(const JobRow& job) const;
  absl::Status DoPropose(const v1::ProposeRequest& request, v1::ProposeResponse& response);
  absl::StatusOr<bool> LookAt(const v1::WaitProposalRequest& request,
                              v1::WaitProposalResponse& response);
  struct OpenTry;
  // The unit, with its device time reserved.
  absl::StatusOr<WorkUnit> TryUnit(const v1::TryProposalRequest& request, OpenTry& open);
  absl::Status EndTry(const v1::TryProposalRequest& request, OpenTry& open, const UnitEnd& outcome,
                      v1::TryProposalResponse& response);

  // Time by which claims run out: the wall clock's when the server began, and monotonic since.
  std::int64_t ClaimNowNs() const;

  ProposalsParts parts_;
  const std::int64_t clock_base_ns_;
  const std::chrono::steady_clock::time_point clock_start_;
  std::mutex mutex_;
  // Parsed tasks by digest, newest first. Guarded by mutex_.
  std::deque<std::pair<std::string, std::shared_ptr<const Task>>> tasks_;
};

}  // namespace fettle
