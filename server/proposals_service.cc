// SPDX-License-Identifier: Apache-2.0
#include "server/proposals_service.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/feedback.h"
#include "agent/kernel_change.h"
#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/job_kernels.h"
#include "server/limits.h"
#include "server/proposal_view.h"
#include "server/recording_of.h"
#include "server/unary.h"
#include "server/wait_call.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/proposal_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kParsedTasks = 16;
constexpr std::int64_t kMaxQueuedProposals = 64;
constexpr std::int64_t kMaxWaitMs = 50'000;
constexpr std::int64_t kMaxFit = 1'000;
constexpr int kAttemptsPage = 20;
constexpr std::int64_t kMaxClaimMinutes = 240;

std::string Compact(const json& document) { return document.dump(-1, ' ', false, kReplaceInvalid); }

absl::Status Coded(absl::Status status, std::string_view code) {
  return WithErrorCode(std::move(status), code);
}

absl::Status CheckText(const char* field, const std::string& text, std::size_t most) {
  if (text.size() > most) return Coded(errors::TooLong(field, text.size(), most), "bad_request");
  if (!IsUtf8(text)) {
    return Coded(errors::BadField(field, "must be UTF-8 text"), "bad_request");
  }
  return absl::OkStatus();
}

// The stable name of what is wrong with a change.
std::string_view CodeOf(ChangeProblem problem) {
  switch (problem) {
    case ChangeProblem::kPatchFailed:
      return "patch_failed";
    case ChangeProblem::kInvalidKernel:
      return "proposal_invalid";
    default:
      return "bad_request";
  }
}

std::string StateOf(const std::optional<CandidateRow>& row, const JobRow& job) {
  if (row.has_value()) return row->state;
  return job.terminal() ? "not_evaluated" : "queued";
}

}  // namespace

ProposalsService::Unary* ProposalsService::Run(Context* context, AccessRole needed,
                                               const std::string& job_id,
                                               std::function<absl::Status()> body) {
  return RunAllowed(parts_.executor, context, parts_.access.CheckJob(*context, needed, job_id),
                    std::move(body));
}

absl::StatusOr<JobRow> ProposalsService::Job(const std::string& id) const {
  if (id.empty()) return Coded(errors::BadField("job_id", "must not be empty"), "bad_request");
  std::optional<JobRow> row;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindJob(db, id));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return Coded(errors::NoSuchJob(id), "unknown_job");
  return *std::move(row);
}

absl::StatusOr<JobRow> ProposalsService::OpenJob(const std::string& id) const {
  FETTLE_ASSIGN_OR_RETURN(JobRow job, Job(id));
  if (job.terminal()) {
    return Coded(absl::FailedPreconditionError(fmt::format("job {} has ended ({}): {}", job.id,
                                                           job.state, CutText(job.message, 300))),
                 "job_ended");
  }
  if (job.proposer != "external") {
    return Coded(absl::FailedPreconditionError(
                     fmt::format("job {} has the proposer {}; submit one with --proposer external",
                                 job.id, job.proposer)),
                 "wrong_proposer");
  }
  if (job.started_ns == 0) {
    const std::string waiting = parts_.jobs.Waiting(job.id);
    return Coded(absl::UnavailableError(fmt::format("job {} has not started{}; try again", job.id,
                                                    waiting.empty() ? "" : ": it " + waiting)),
                 "job_not_started");
  }
  return job;
}

absl::StatusOr<std::shared_ptr<const Task>> ProposalsService::TaskOf(const JobRow& job) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [digest, task] : tasks_) {
      if (digest == job.task_digest) return task;
    }
  }
  std::optional<TaskRow> row;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindTask(db, job.task_digest));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return absl::DataLossError("the job's task is not in the store");
  FETTLE_ASSIGN_OR_RETURN(const std::string blob, parts_.store.blobs().Get(row->blob));
  FETTLE_ASSIGN_OR_RETURN(TaskFiles files, UnpackTaskFiles(blob));
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(std::shared_ptr<const Task> task,
                          Task::Parse(std::move(files), &problems));
  const std::lock_guard lock(mutex_);
  tasks_.emplace_front(job.task_digest, task);
  if (tasks_.size() > kParsedTasks) tasks_.pop_back();
  return task;
}

absl::StatusOr<std::string> ProposalsService::Bar(const JobRow& job) const {
  FETTLE_ASSIGN_OR_RETURN(const json bar, BarOf(parts_.store, job, parts_.rule,
                                                job.terminal() ? "" : parts_.jobs.Waiting(job.id)));
  return Compact(bar);
}

absl::StatusOr<ProposalsService::Resolved> ProposalsService::Parent(const Task& task,
                                                                    const JobRow& job,
                                                                    const std::string& name) {
  FETTLE_RETURN_IF_ERROR(CheckText("parent", name, limits::kMaxNameBytes));
  Resolved resolved;
  std::optional<CandidateRow> row;
  if (name == "incumbent") {
    if (job.incumbent_ordinal != 0) {
      FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(row, FindCandidate(db, job.id, job.incumbent_ordinal));
        return absl::OkStatus();
      }));
    }
    // Before the first win the one to beat is the denominator.
    if (!row.has_value()) {
      FETTLE_ASSIGN_OR_RETURN(resolved.kernel, FindDenominator(parts_.store, task, job));
      return resolved;
    }
  } else if (!name.empty() && name != "baseline") {
    absl::Status found = parts_.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job.id, name));
      return absl::OkStatus();
    });
    if (absl::IsInvalidArgument(found)) return Coded(found, "unknown_parent");
    FETTLE_RETURN_IF_ERROR(found);
    if (!row.has_value()) {
      return Coded(errors::NoSuchCandidate(job.id, name), "unknown_parent");
    }
  }
  if (row.has_value()) {
    FETTLE_ASSIGN_OR_RETURN(resolved.kernel, LoadKernel(parts_.store, *row));
    resolved.parent = row->digest;
    return resolved;
  }
  const KernelSpec& baseline = task.baseline();
  resolved.kernel = {CandidateDigest(task.digest(), job.target, baseline, baseline.values),
                     baseline, baseline.values};
  return resolved;
}

absl::StatusOr<ProposalsService::Resolved> ProposalsService::Resolve(
    const Task& task, const JobRow& job, const v1::KernelChange& change) {
  FETTLE_RETURN_IF_ERROR(
      CheckText("kernel_json", change.kernel_json(), limits::kMaxKernelJsonBytes));
  FETTLE_RETURN_IF_ERROR(CheckText("patch", change.patch(), limits::kMaxKernelJsonBytes));
  for (const v1::Edit& edit : change.edits()) {
    FETTLE_RETURN_IF_ERROR(CheckText("edits.find", edit.find(), limits::kMaxKernelJsonBytes));
    FETTLE_RETURN_IF_ERROR(CheckText("edits.replace", edit.replace(), limits::kMaxKernelJsonBytes));
  }
  FETTLE_ASSIGN_OR_RETURN(Resolved resolved, Parent(task, job, change.parent()));
  KernelChange applied;
  if (!change.kernel_json().empty()) {
    applied.block = ParseJson(change.kernel_json(), kMaxPartNesting);
    if (!applied.block.is_object()) {
      return Coded(errors::BadField("kernel_json",
                                    fmt::format("must be a JSON object, nested at most {} deep",
                                                kMaxPartNesting)),
                   "bad_request");
    }
  }
  applied.patch = change.patch();
  for (const v1::Edit& edit : change.edits())
    applied.edits.push_back({edit.find(), edit.replace()});
  ChangeProblem problem = ChangeProblem::kNone;
  absl::StatusOr<KernelSpec> kernel = ApplyChange(task, resolved.kernel.kernel, applied, &problem);
  if (!kernel.ok()) return Coded(kernel.status(), CodeOf(problem));
  resolved.kernel.kernel = *std::move(kernel);
  resolved.kernel.values = resolved.kernel.kernel.values;
  resolved.kernel.digest =
      CandidateDigest(task.digest(), job.target, resolved.kernel.kernel, resolved.kernel.values);
  return resolved;
}

ProposalsService::Unary* ProposalsService::CreateProposeToken(
    Context* context, const v1::CreateProposeTokenRequest* request,
    v1::CreateProposeTokenResponse* response) {
  return RunUnary(parts_.executor, context, parts_.access, AccessRole::kOperate,
                  [this, request, response]() -> absl::Status {
                    FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
                    FETTLE_ASSIGN_OR_RETURN(
                        *response->mutable_token(),
                        parts_.tokens.Create(parts_.store, job.id, parts_.clock));
                    return absl::OkStatus();
                  });
}

ProposalsService::Unary* ProposalsService::GetBrief(Context* context,
                                                    const v1::GetBriefRequest* request,
                                                    v1::GetBriefResponse* response) {
  return Run(
      context, AccessRole::kRead, request->job_id(), [this, request, response]() -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
        FETTLE_ASSIGN_OR_RETURN(const auto task, TaskOf(job));
        const std::string section = request->section().empty() ? "overview" : request->section();
        if (section == "overview") {
          FETTLE_ASSIGN_OR_RETURN(
              json bar, BarOf(parts_.store, job, parts_.rule, parts_.jobs.Waiting(job.id)));
          response->set_document_json(Compact(BriefOverview(*task, job, std::move(bar))));
          return absl::OkStatus();
        }
        const absl::StatusOr<std::string> text = BriefText(*task, job, section);
        if (!text.ok()) return Coded(text.status(), "bad_request");
        const absl::StatusOr<TextPage> page = PageOf(*text, request->cursor());
        if (!page.ok()) return Coded(page.status(), "bad_request");
        response->set_document_json(Compact({{"section", section}, {"text", page->text}}));
        response->set_next_cursor(page->next_cursor);
        return absl::OkStatus();
      });
}

absl::Status ProposalsService::DoPropose(const v1::ProposeRequest& request,
                                         v1::ProposeResponse& response) {
  FETTLE_RETURN_IF_ERROR(CheckText("key", request.key(), limits::kMaxNameBytes));
  FETTLE_RETURN_IF_ERROR(CheckText("technique", request.technique(), limits::kMaxNameBytes));
  FETTLE_RETURN_IF_ERROR(CheckText("rationale", request.rationale(), limits::kMaxRationaleBytes));
  if (request.fit() < 0 || request.fit() > kMaxFit) {
    return Coded(errors::BadField("fit", fmt::format("must be 0 to {}", kMaxFit)), "bad_request");
  }
  const v1::KernelChange& change = request.change();
  if (change.kernel_json().empty() && change.patch().empty() && change.edits().empty() &&
      request.fit() == 0) {
    return Coded(errors::BadField("change", "is empty: give a source, a patch, edits or a block"),
                 "bad_request");
  }
  const std::string request_digest = Sha256Hex(request.SerializeAsString());
  const auto answer = [&](const JobRow& job, const std::string& digest,
                          bool known) -> absl::Status {
    std::optional<CandidateRow> row;
    FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job.id, digest));
      return absl::OkStatus();
    }));
    response.set_candidate(digest);
    response.set_state(StateOf(row, job));
    response.set_known(known);
    FETTLE_ASSIGN_OR_RETURN(*response.mutable_bar_json(), Bar(job));
    response.set_next_action(known ? "the job has this candidate already; read its verdict with "
                                     "wait, then propose something else"
                                   : "wait for the verdict of this candidate");
    return absl::OkStatus();
  };
  FETTLE_ASSIGN_OR_RETURN(JobRow job, Job(request.job_id()));
  if (!request.key().empty()) {
    std::optional<ProposalRow> before;
    FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(before, FindProposalByKey(db, job.id, request.key()));
      return absl::OkStatus();
    }));
    if (before.has_value()) {
      if (before->request_digest != request_digest) {
        return Coded(absl::AlreadyExistsError(
                         fmt::format("key: {} was used for another proposal; choose a new one",
                                     CutText(request.key(), 80))),
                     "key_reused");
      }
      return answer(job, before->candidate_digest, /*known=*/false);
    }
  }
  FETTLE_ASSIGN_OR_RETURN(job, OpenJob(request.job_id()));
  FETTLE_ASSIGN_OR_RETURN(const auto task, TaskOf(job));
  FETTLE_ASSIGN_OR_RETURN(const Resolved resolved, Resolve(*task, job, request.change()));
  ProposalRow row;
  row.job_id = job.id;
  row.key = request.key().empty() ? "digest:" + resolved.kernel.digest : request.key();
  row.request_digest = request_digest;
  row.candidate_digest = resolved.kernel.digest;
  row.kernel_json = Compact(ToJson(resolved.kernel.kernel));
  row.parent = resolved.parent;
  row.technique = request.technique();
  row.rationale = request.rationale();
  row.fit = request.fit();
  row.created_ns = parts_.clock.NowNs();
  bool known = false;
  FETTLE_RETURN_IF_ERROR(parts_.store.Write([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto candidate,
                            FindCandidateByDigest(db, job.id, row.candidate_digest));
    FETTLE_ASSIGN_OR_RETURN(const auto queued,
                            FindProposalByCandidate(db, job.id, row.candidate_digest));
    known = candidate.has_value() || queued.has_value();
    if (known && row.fit == 0) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t waiting, CountQueuedProposals(db, job.id));
    if (waiting >= kMaxQueuedProposals) {
      return Coded(absl::ResourceExhaustedError(
                       fmt::format("{} proposals wait already; wait for a verdict first", waiting)),
                   "too_many_waiting");
    }
    if (job.budget.candidates > 0 && job.spent.candidates + waiting >= job.budget.candidates) {
      return Coded(absl::ResourceExhaustedError(fmt::format(
                       "the budget of {} candidates is spent; `fettle resume {} --candidates N` "
                       "raises it",
                       job.budget.candidates, job.id)),
                   "budget_spent");
    }
    return InsertProposal(db, row);
  }));
  if (!known) parts_.jobs.Poke(job.id);
  return answer(job, row.candidate_digest, known);
}

ProposalsService::Unary* ProposalsService::Propose(Context* context,
                                                   const v1::ProposeRequest* request,
                                                   v1::ProposeResponse* response) {
  return Run(context, AccessRole::kPropose, request->job_id(),
             [this, request, response] { return DoPropose(*request, *response); });
}

absl::StatusOr<bool> ProposalsService::LookAt(const v1::WaitProposalRequest& request,
                                              v1::WaitProposalResponse& response) {
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request.job_id()));
  if (request.candidate().empty()) {
    return Coded(errors::BadField("candidate", "must name a candidate"), "bad_request");
  }
  FETTLE_RETURN_IF_ERROR(CheckText("candidate", request.candidate(), limits::kMaxNameBytes));
  std::optional<CandidateRow> row;
  std::optional<ProposalRow> proposal;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job.id, request.candidate()));
    if (row.has_value()) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(proposal, FindProposalByCandidate(db, job.id, request.candidate()));
    return absl::OkStatus();
  }));
  if (!row.has_value() && !proposal.has_value()) {
    return Coded(errors::NoSuchCandidate(job.id, request.candidate()), "unknown_candidate");
  }
  response.set_candidate(row.has_value() ? row->digest : proposal->candidate_digest);
  response.set_state(StateOf(row, job));
  FETTLE_ASSIGN_OR_RETURN(*response.mutable_bar_json(), Bar(job));
  if (row.has_value() && row->state == candidate_state::kJudged) {
    FETTLE_ASSIGN_OR_RETURN(const json feedback, FeedbackOf(parts_.store, *row));
    response.set_feedback_json(Compact(feedback));
    const json document = json::parse(row->verdict_json, nullptr, /*allow_exceptions=*/false);
    const absl::StatusOr<VerdictRecord> verdict = VerdictRecordFromJson(document);
    response.set_next_action(job.terminal() ? "the job has ended; there is nothing left to propose"
                             : verdict.ok() ? NextAction(*verdict)
                                            : "");
    return true;
  }
  if (job.terminal()) {
    response.set_next_action("the job ended before this candidate was judged; stop");
    return true;
  }
  response.set_next_action("not judged yet: wait again with the same candidate");
  return false;
}

ProposalsService::Unary* ProposalsService::WaitProposal(Context* context,
                                                        const v1::WaitProposalRequest* request,
                                                        v1::WaitProposalResponse* response) {
  if (absl::Status allowed = parts_.access.CheckJob(*context, AccessRole::kRead, request->job_id());
      !allowed.ok()) {
    return RefuseUnary(allowed);
  }
  const std::int64_t wait_ms = std::clamp<std::int64_t>(request->wait_ms(), 0, kMaxWaitMs);
  return WaitCall::Start(parts_.events, parts_.executor, request->job_id(),
                         std::chrono::milliseconds(wait_ms),
                         [this, request, response] { return LookAt(*request, *response); });
}

std::int64_t ProposalsService::ClaimNowNs() const {
  return clock_base_ns_ +
         std::chrono::duration_cast<std::chrono::nanoseconds>(parts_.clock.Steady() - clock_start_)
             .count();
}

ProposalsService::Unary* ProposalsService::ClaimDirection(Context* context,
                                                          const v1::ClaimDirectionRequest* request,
                                                          v1::ClaimDirectionResponse* response) {
  return Run(
      context, AccessRole::kPropose, request->job_id(),
      [this, request, response]() -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
        FETTLE_RETURN_IF_ERROR(CheckText("direction", request->direction(), limits::kMaxNameBytes));
        FETTLE_RETURN_IF_ERROR(CheckText("holder", request->holder(), limits::kMaxNameBytes));
        if (!request->direction().empty() && request->holder().empty()) {
          return Coded(errors::BadField("holder", "must name who claims it"), "bad_request");
        }
        const std::int64_t now = ClaimNowNs();
        const std::int64_t minutes = std::clamp<std::int64_t>(
            request->minutes() == 0 ? 30 : request->minutes(), 1, kMaxClaimMinutes);
        std::vector<DirectionRow> live;
        bool granted = false;
        const absl::Status stored = parts_.store.Write([&](Connection& db) -> absl::Status {
          if (!request->direction().empty() && request->give_back()) {
            FETTLE_RETURN_IF_ERROR(
                DropDirection(db, job.id, request->direction(), request->holder()));
          } else if (!request->direction().empty()) {
            FETTLE_RETURN_IF_ERROR(
                DropDirectionsAfter(db, job.id, now + kMaxClaimMinutes * 60'000'000'000));
            FETTLE_ASSIGN_OR_RETURN(granted, PutDirection(db, job.id,
                                                          {request->direction(), request->holder(),
                                                           now + minutes * 60'000'000'000},
                                                          now));
          }
          FETTLE_ASSIGN_OR_RETURN(live, LiveDirections(db, job.id, now));
          return absl::OkStatus();
        });
        if (!stored.ok()) return stored;
        json claims = json::array();
        for (const DirectionRow& row : live) {
          claims.push_back({{"direction", row.direction},
                            {"holder", row.holder},
                            {"minutes_left", (row.until_ns - now) / 60'000'000'000}});
        }
        response->set_granted(granted);
        response->set_claims_json(Compact(claims));
        return absl::OkStatus();
      });
}

ProposalsService::Unary* ProposalsService::ListAttempts(Context* context,
                                                        const v1::ListAttemptsRequest* request,
                                                        v1::ListAttemptsResponse* response) {
  return Run(
      context, AccessRole::kRead, request->job_id(), [this, request, response]() -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
        const bool best = request->order() == "best";
        if (!best && !request->order().empty() && request->order() != "newest") {
          return Coded(errors::BadField("order", "must be newest or best"), "bad_request");
        }
        if (!request->verdict().empty() && !ParseVerdict(request->verdict()).has_value()) {
          return Coded(errors::BadField("verdict", "must be a verdict such as WIN or NO_WIN"),
                       "bad_request");
        }
        const absl::StatusOr<std::int64_t> begin = ParseOrdinalToken(request->cursor());
        if (!begin.ok()) {
          return Coded(
              errors::BadField("cursor", "must be next_cursor of an earlier reply, or empty"),
              "bad_request");
        }
        const std::int64_t cursor = *begin;
        std::vector<CandidateRow> rows;
        FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
          if (best) {
            FETTLE_ASSIGN_OR_RETURN(
                rows, BestCandidates(db, job.id, request->verdict(), cursor, kAttemptsPage));
          } else {
            FETTLE_ASSIGN_OR_RETURN(
                rows, RecentCandidates(db, job.id, request->verdict(), cursor, kAttemptsPage));
          }
          return absl::OkStatus();
        }));
        json attempts = json::array();
        for (const CandidateRow& row : rows) attempts.push_back(AttemptJson(row));
        response->set_attempts_json(Compact(attempts));
        if (rows.size() == static_cast<std::size_t>(kAttemptsPage)) {
          response->set_next_cursor(
              std::to_string(best ? cursor + kAttemptsPage : rows.back().ordinal));
        }
        FETTLE_ASSIGN_OR_RETURN(*response->mutable_bar_json(), Bar(job));
        return absl::OkStatus();
      });
}

ProposalsService::Unary* ProposalsService::ShowAttempt(Context* context,
                                                       const v1::ShowAttemptRequest* request,
                                                       v1::ShowAttemptResponse* response) {
  return Run(
      context, AccessRole::kRead, request->job_id(), [this, request, response]() -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
        FETTLE_ASSIGN_OR_RETURN(const auto task, TaskOf(job));
        FETTLE_ASSIGN_OR_RETURN(const Resolved resolved, Parent(*task, job, request->candidate()));
        const std::string part = request->part().empty() ? "feedback" : request->part();
        if (part == "feedback") {
          std::optional<CandidateRow> row;
          if (!resolved.parent.empty()) {
            FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
              FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job.id, resolved.parent));
              return absl::OkStatus();
            }));
          }
          if (!row.has_value()) {
            return Coded(errors::BadField("part",
                                          "the baseline has no feedback; ask for source "
                                          "or kernel"),
                         "bad_request");
          }
          FETTLE_ASSIGN_OR_RETURN(json feedback, FeedbackOf(parts_.store, *row));
          feedback["attempt"] = AttemptJson(*row);
          response->set_document_json(Compact(feedback));
          return absl::OkStatus();
        }
        std::string text;
        if (part == "source") {
          text = resolved.kernel.kernel.source;
        } else if (part == "kernel") {
          json block = ToJson(resolved.kernel.kernel);
          block.erase("source");
          text = block.dump(1, ' ', false, kReplaceInvalid);
        } else {
          return Coded(errors::BadField("part", "must be feedback, source or kernel"),
                       "bad_request");
        }
        const absl::StatusOr<TextPage> page = PageOf(text, request->cursor());
        if (!page.ok()) return Coded(page.status(), "bad_request");
        response->set_document_json(
            Compact({{"candidate", resolved.kernel.digest}, {"part", part}, {"text", page->text}}));
        response->set_next_cursor(page->next_cursor);
        return absl::OkStatus();
      });
}

ProposalsService::Unary* ProposalsService::GetRecording(Context* context,
                                                        const v1::GetRecordingRequest* request,
                                                        v1::GetRecordingResponse* response) {
  return RunUnary(parts_.executor, context, parts_.access, AccessRole::kOperate,
                  [this, request, response]() -> absl::Status {
                    FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request->job_id()));
                    FETTLE_ASSIGN_OR_RETURN(const Recording recording,
                                            RecordingOf(parts_.store, job));
                    response->set_recording_json(Compact(ToJson(recording)));
                    return absl::OkStatus();
                  });
}

}  // namespace fettle
