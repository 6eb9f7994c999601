// SPDX-License-Identifier: Apache-2.0
#include "server/llm_proposer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "agent/agent_data.h"
#include "agent/feedback.h"
#include "agent/llm/http_client.h"
#include "agent/llm/secrets.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "server/device_time.h"
#include "server/errors.h"
#include "server/ids.h"
#include "server/job_kernels.h"
#include "server/job_measures.h"
#include "server/limits.h"
#include "server/proposal_view.h"
#include "server/unit_wait.h"
#include "store/agent_call_store.h"
#include "store/candidate_store.h"
#include "store/job_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kBytesPerContextToken = 2;  // A careful guess for code.
constexpr double kLeastShare = 0.25;  // Of what prompts may hold; less says too little of a kernel.

// The key of a model, from the environment or a file of mode 0600.
absl::StatusOr<std::string> KeyOf(const ModelSpec& model) {
  if (!model.key_file.empty()) {
    FETTLE_ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(model.key_file));
    return UsableKey(model.name, key);
  }
  if (model.key_env.empty()) return std::string();
  const char* value = std::getenv(model.key_env.c_str());
  if (value == nullptr || *value == '\0') {
    return absl::FailedPreconditionError(
        fmt::format("model {}: the key is missing: set {} in the server's environment, or name a "
                    "key_file in its models file",
                    model.name, model.key_env));
  }
  return UsableKey(model.name, value);
}

absl::StatusOr<Recording> FindRecording(const std::string& name, const std::string& folder) {
  const std::string file = fmt::format("recordings/{}.json", name);
  for (const std::string_view known : AgentDataNames()) {
    if (known == file) return ParseRecording(AgentData(file));
  }
  const bool plain = !name.empty() && name.find('/') == std::string::npos && name.front() != '.';
  const std::filesystem::path path = std::filesystem::path(folder) / (name + ".json");
  std::error_code error;
  if (plain && !folder.empty() && std::filesystem::is_regular_file(path, error)) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return ParseRecording(text.str());
  }
  return errors::BadField(
      "options_json.recording",
      fmt::format("no recording '{}': neither bundled nor in {}", CutText(name, 80), folder));
}

Attempt PlainAttempt(const CandidateRow& row) {
  Attempt attempt;
  attempt.digest = row.digest;
  attempt.ratio = row.ratio;
  const json verdict = json::parse(row.verdict_json, nullptr, /*allow_exceptions=*/false);
  if (absl::StatusOr<VerdictRecord> record = VerdictRecordFromJson(verdict); record.ok()) {
    attempt.verdict = WithoutSecrets(*std::move(record));
  }
  return attempt;
}

}  // namespace

LlmProposer::LlmProposer(Setup setup, const Task& task, Target target, JobServices services)
    : setup_(std::move(setup)),
      task_(task),
      target_(std::move(target)),
      services_(std::move(services)),
      card_(FindHardwareCard(target_.name)),
      journal_(*services_.store, *services_.clock, services_.job_id) {}

LlmProposer::~LlmProposer() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status LlmProposer::Prepare() {
  FETTLE_RETURN_IF_ERROR(journal_.Load());
  FETTLE_RETURN_IF_ERROR(
      MakeModel(setup_.planner, setup_.planner_key, ModelRole::kPlanner, planner_));
  return MakeModel(setup_.writer, setup_.writer_key, ModelRole::kWriter, writer_);
}

absl::Status LlmProposer::MakeModel(const ModelSpec& spec, const std::string& key, ModelRole role,
                                    Model& model) {
  model.spec = spec;
  if (setup_.recording.has_value()) {
    // Nothing is paid and nothing can be lost, so that a replay needs no journal.
    model.http =
        std::make_unique<ReplayClient>(setup_.recording->calls, std::string(ModelRoleName(role)));
    model.outermost = model.http.get();
    return absl::OkStatus();
  }
  LlmEndpoint endpoint;
  endpoint.provider = spec.provider;
  endpoint.base_url = spec.base_url;
  endpoint.api_key = key;
  endpoint.headers = spec.headers;
  endpoint.ca_file = spec.ca_file;
  endpoint.limit_field = spec.limit_field;
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  endpoint.idle_limit = milliseconds(spec.idle_seconds);
  endpoint.total_limit = milliseconds(spec.total_seconds);
  FETTLE_ASSIGN_OR_RETURN(model.http, MakeLlmClient(std::move(endpoint), *services_.agent->http));
  model.journaled = std::make_unique<JournaledClient>(*model.http, journal_, spec,
                                                      fmt::format("model/{}", ModelRoleName(role)),
                                                      [this] { services_.charged(); });
  model.retrying = std::make_unique<RetryingClient>(
      *model.journaled, services_.agent->retry, services_.agent->sleep,
      [this] { return services_.clock->Steady(); },
      [this](const RetryingClient::Attempt& attempt) {
        services_.note("model_retry",
                       fmt::format("attempt {} failed: {}; again in {} ms", attempt.number,
                                   CutText(StatusText(attempt.status), 300), attempt.wait.count()));
      },
      setup_.loop.seed);
  model.outermost = model.retrying.get();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Proposal>> LlmProposer::Propose(int max, std::stop_token) {
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](std::stop_token stop) {
      pthread_setname_np(pthread_self(), "agent");
      Run(std::move(stop));
    });
  }
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  std::vector<Proposal> proposals;
  while (!ready_.empty() && static_cast<int>(proposals.size()) < max) {
    proposals.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return proposals;
}

void LlmProposer::Observe(const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    judged_.insert(outcome.candidate_digest);
  }
  judged_wake_.notify_all();
}

bool LlmProposer::exhausted() const {
  const std::lock_guard lock(mutex_);
  return ended_ && ready_.empty() && failure_.ok();
}

std::string LlmProposer::why_exhausted() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void LlmProposer::Run(std::stop_token stop) {
  absl::Status status = RunLoop(stop);
  if (const absl::Status flushed = journal_.Flush(); status.ok()) status = flushed;
  if (stop.stop_requested()) return;
  if (!status.ok()) {
    // What repeats would not mend ends the job with its reason; `fettle resume` takes it up again.
    spdlog::warn("agent_failed job_id={} error={}", services_.job_id, StatusText(status));
    if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
      status = absl::FailedPreconditionError(StatusText(status));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (!status.ok()) {
      failure_ = absl::Status(status.code(), "the agent cannot go on: " + StatusText(status));
    }
  }
  services_.wake();
}

absl::Status LlmProposer::RunLoop(std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job());
  FETTLE_ASSIGN_OR_RETURN(const KernelUnderTest denominator,
                          FindDenominator(*services_.store, task_, job));
  PromptContext context;
  context.task = &task_;
  context.target = target_;
  context.device_model = job.device_model;
  context.card = card_.has_value() ? &*card_ : nullptr;
  LoopOptions options = setup_.loop;
  options.max_output_tokens =
      std::min(planner_.spec.max_output_tokens > 0 ? planner_.spec.max_output_tokens
                                                   : options.max_output_tokens,
               writer_.spec.max_output_tokens > 0 ? writer_.spec.max_output_tokens
                                                  : options.max_output_tokens);
  std::int64_t context_tokens = 0;  // Of the model with the shorter one; 0: unknown.
  for (const Model* model : {&planner_, &writer_}) {
    const std::int64_t tokens = model->spec.context_tokens;
    if (tokens > 0 && (context_tokens == 0 || tokens < context_tokens)) context_tokens = tokens;
  }
  if (context_tokens > 0) {
    const auto context_bytes = static_cast<std::size_t>(
        kBytesPerContextToken *
        std::max<std::int64_t>(context_tokens - options.max_output_tokens, 1'000));
    if (context_bytes < options.max_conversation_bytes) {
      context.share =
          std::max(kLeastShare, static_cast<double>(context_bytes) /
                                    static_cast<double>(options.max_conversation_bytes));
      options.max_conversation_bytes = context_bytes;
    }
  }
  AgentLoop loop(context, denominator.kernel, *this, options);
  const absl::Status status = loop.Run(std::move(stop));
  const std::lock_guard lock(mutex_);
  reason_ = fmt::format("{} after {} rounds", loop.reason().empty() ? "ended" : loop.reason(),
                        loop.rounds());
  return status;
}

absl::StatusOr<JobRow> LlmProposer::Job() const {
  std::optional<JobRow> row;
  FETTLE_RETURN_IF_ERROR(services_.store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindJob(db, services_.job_id));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return absl::NotFoundError("the job is gone");
  return *std::move(row);
}

absl::StatusOr<LlmReply> LlmProposer::Ask(ModelRole role, const LlmRequest& request,
                                          std::stop_token stop) {
  Model& model = role == ModelRole::kPlanner ? planner_ : writer_;
  LlmRequest sent = request;
  sent.model = model.spec.model;
  absl::StatusOr<LlmReply> reply = model.outermost->Complete(sent, std::move(stop));
  recalled_ = model.journaled != nullptr && model.journaled->recalled();
  if (setup_.recording.has_value() && absl::IsNotFound(reply.status())) {
    return absl::AbortedError(
        fmt::format("the replay of a recording is over ({})", setup_.recording->source));
  }
  if (absl::IsOutOfRange(reply.status())) {  // Longer than any proposal: as if it were empty.
    services_.note("model_answer", CutText(StatusText(reply.status()), 300));
    return LlmReply();
  }
  return reply;
}

// What the model does next depends on it.
absl::Status LlmProposer::Unanswered(const JournalQuestion& question, const absl::Status& why) {
  FETTLE_ASSIGN_OR_RETURN(const AgentCallRow row, journal_.Begin(question, "", {}));
  FETTLE_RETURN_IF_ERROR(journal_.Failed(row, why, {}, /*goes_on=*/true));
  return why;
}

absl::StatusOr<UnitResult> LlmProposer::Try(const KernelSpec& kernel, const std::string& mode,
                                            std::stop_token stop) {
  const std::string digest = CandidateDigest(task_.digest(), target_.name, kernel, kernel.values);
  const JournalQuestion question("try/" + mode, {{"mode", mode}, {"candidate", digest}});
  FETTLE_ASSIGN_OR_RETURN(const std::optional<JournalOutcome> recalled, journal_.Recall(question));
  if (recalled.has_value()) {
    if (!recalled->failure.ok()) return recalled->failure;
    return UnitResultFromJson(recalled->answer);
  }
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job());
  std::optional<TaskRow> task_row;
  FETTLE_RETURN_IF_ERROR(services_.store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(task_row, FindTask(db, job.task_digest));
    return absl::OkStatus();
  }));
  if (!task_row.has_value()) return absl::DataLossError("the job's task is not in the store");
  WorkUnit unit;
  unit.kind = mode == "compile" ? UnitKind::kCompile : UnitKind::kEvaluate;
  unit.task_digest = job.task_digest;
  unit.task_blob = task_row->blob;
  unit.target = job.target;
  unit.device_model = job.device_model;
  unit.candidate = {digest, kernel, kernel.values};
  FETTLE_ASSIGN_OR_RETURN(unit.denominator, FindDenominator(*services_.store, task_, job));
  unit.seed = RandomSeed();
  unit.held_out_seed = RandomSeed();
  unit.screen = false;
  unit.measure = mode == "measure";
  unit.counters = mode == "counters";
  unit.deadline_ms = limits::kConfirmDeadlineMs;
  if (mode == "bugs") {
    unit.check_mode = true;
    unit.target = "cpu";
    if (job.target != "cpu") unit.device_model.clear();
    if (!services_.dispatcher->ChecksOnCpu()) {
      return Unanswered(question, errors::NoWorkerFor("cpu"));
    }
  }
  // Until the try has ended, or its worker says what a stopped one took.
  const auto reservation = std::make_shared<TryReservation>(services_.device_time);
  if (const absl::Status fits = reservation->Reserve(); !fits.ok()) {
    // What is spent ends the loop; what is only reserved is told to the model.
    if (!absl::IsUnavailable(fits)) return absl::AbortedError(StatusText(fits));
    return Unanswered(question, fits);
  }
  unit.device_cap_ms = reservation->cap_ms();
  FETTLE_ASSIGN_OR_RETURN(const AgentCallRow row,
                          journal_.Begin(question, "", {}, reservation->cap_ms()));
  absl::StatusOr<UnitResult> result = RunUnit(
      *services_.dispatcher, std::move(unit), stop,
      [reservation, store = services_.store, job_id = row.job_id, sequence = row.sequence](
          std::int64_t device_ms, bool last) {
        reservation->Charge(device_ms);
        if (!last) return;
        const absl::Status stored = store->Write([&](Connection& db) {
          return SettleDeviceTime(db, job_id, sequence, reservation->used_ms());
        });
        if (!stored.ok()) {
          spdlog::warn("device_time_not_stored job_id={} error={}", job_id, StatusText(stored));
        }
      });
  if (!result.ok()) {
    const bool goes_on = !stop.stop_requested() && !absl::IsCancelled(result.status()) &&
                         !absl::IsAborted(result.status());
    FETTLE_RETURN_IF_ERROR(journal_.Failed(row, result.status(), {}, goes_on));
    return result.status();
  }
  if (result->verdict.has_value()) result->verdict = WithoutSecrets(*result->verdict);
  if (result->verification.has_value()) result->verification->seeds.clear();
  const std::int64_t device_ms = DeviceMs(result->device_ns);
  reservation->Charge(device_ms);
  reservation->SawUnit(device_ms);
  FETTLE_RETURN_IF_ERROR(journal_.Answered(row, ToJson(*result), {}, reservation->used_ms()));
  return result;
}

absl::StatusOr<Attempt> LlmProposer::AttemptOf(const std::string& digest) {
  std::optional<CandidateRow> row;
  FETTLE_RETURN_IF_ERROR(services_.store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, services_.job_id, digest));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return absl::DataLossError("a judged candidate is not stored");
  Attempt attempt = PlainAttempt(*row);
  FETTLE_ASSIGN_OR_RETURN(std::optional<UnitResult> evaluation,
                          EvaluationOf(*services_.store, *row));
  if (evaluation.has_value()) attempt.evaluation = *std::move(evaluation);
  FETTLE_ASSIGN_OR_RETURN(attempt.feedback, FeedbackOf(*services_.store, *row));
  return attempt;
}

absl::Status LlmProposer::KeepTranscript(const std::vector<std::string>& digests,
                                         const json& transcript) {
  if (transcript.is_null()) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(const std::string blob, services_.store->blobs().Put(transcript.dump(
                                                      -1, ' ', false, kReplaceInvalid)));
  for (const std::string& digest : digests) journal_.Transcript(digest, blob);
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> LlmProposer::Judged(
    const std::vector<std::string>& digests) const {
  std::set<std::string> judged;
  FETTLE_RETURN_IF_ERROR(services_.store->Read([&](Connection& db) -> absl::Status {
    for (const std::string& digest : digests) {
      FETTLE_ASSIGN_OR_RETURN(const std::optional<CandidateRow> row,
                              FindCandidateByDigest(db, services_.job_id, digest));
      if (row.has_value() && row->state == candidate_state::kJudged) judged.insert(digest);
    }
    return absl::OkStatus();
  }));
  return judged;
}

absl::StatusOr<std::vector<Attempt>> LlmProposer::Evaluate(const std::vector<Proposal>& proposals,
                                                           const json& transcript,
                                                           std::stop_token stop) {
  std::vector<std::string> digests;
  for (const Proposal& proposal : proposals) {
    digests.push_back(
        CandidateDigest(task_.digest(), target_.name, proposal.kernel, proposal.values));
  }
  FETTLE_RETURN_IF_ERROR(journal_.Flush());
  FETTLE_ASSIGN_OR_RETURN(const std::set<std::string> known, Judged(digests));
  std::unique_lock lock(mutex_);
  judged_.insert(known.begin(), known.end());
  bool any = false;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    if (judged_.contains(digests[i])) continue;
    ready_.push_back(proposals[i]);
    any = true;
  }
  const auto all_judged = [&] {
    return std::all_of(digests.begin(), digests.end(),
                       [this](const std::string& digest) { return judged_.contains(digest); });
  };
  lock.unlock();
  if (any) services_.wake();
  // While they are evaluated. After a crash in between, the loop comes here again.
  FETTLE_RETURN_IF_ERROR(KeepTranscript(digests, transcript));
  lock.lock();
  if (!all_judged()) {
    lock.unlock();
    FETTLE_RETURN_IF_ERROR(journal_.Flush());
    lock.lock();
  }
  if (!judged_wake_.wait(lock, stop, all_judged)) {
    return absl::CancelledError("the job no longer waits for verdicts");
  }
  for (const std::string& digest : digests) judged_.erase(digest);  // The store knows them.
  lock.unlock();
  std::vector<Attempt> attempts;
  for (const std::string& digest : digests) {
    FETTLE_ASSIGN_OR_RETURN(Attempt attempt, AttemptOf(digest));
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

absl::StatusOr<KernelSpec> LlmProposer::Load(const std::string& digest) {
  FETTLE_ASSIGN_OR_RETURN(const std::optional<CandidateRow> row,
                          FindNamedCandidate(*services_.store, services_.job_id,
                                             CutText(digest, limits::kMaxNameBytes)));
  if (!row.has_value()) return errors::NoSuchCandidate(services_.job_id, digest);
  FETTLE_ASSIGN_OR_RETURN(KernelUnderTest kernel, LoadKernel(*services_.store, *row));
  return std::move(kernel.kernel);
}

void LlmProposer::Note(const std::string& code, const std::string& text) {
  services_.note(code, text);
}

absl::StatusOr<std::unique_ptr<Proposer>> MakeModelProposer(const std::string& kind,
                                                            const Task& task, const Target& target,
                                                            const ProposerOptions& options) {
  FETTLE_ASSIGN_OR_RETURN(const JobOptions job, ParseJobOptions(options.options_json));
  if (options.services.agent == nullptr) {
    return errors::BadField("proposer", "this server has no models");
  }
  AgentServices& agent = *options.services.agent;
  LlmProposer::Setup setup;
  setup.kind = kind;
  setup.loop.seed = options.seed;
  setup.loop.fit = kind == "hybrid" ? job.fit : 0;
  setup.loop.max_turns = static_cast<int>(job.turns);
  if (kind == "replay") {
    FETTLE_ASSIGN_OR_RETURN(Recording recording,
                            FindRecording(job.recording, agent.recordings_dir));
    if (recording.task != task.name()) {
      return errors::BadField("options_json.recording",
                              fmt::format("'{}' was recorded for task {}, not {}", job.recording,
                                          recording.task, task.name()));
    }
    options.services.note("replay", fmt::format("a replay of a recording, not a model at work: {}",
                                                recording.source));
    if (recording.calls.empty()) return MakeProposalReplay(task, target.name, recording);
    setup.recording = std::move(recording);
  } else {
    FETTLE_ASSIGN_OR_RETURN(setup.planner, agent.models.Find(job.model));
    setup.writer = setup.planner;
    if (!job.writer.empty()) {
      FETTLE_ASSIGN_OR_RETURN(setup.writer, agent.models.Find(job.writer));
    }
    FETTLE_ASSIGN_OR_RETURN(setup.planner_key, KeyOf(setup.planner));
    FETTLE_ASSIGN_OR_RETURN(setup.writer_key, KeyOf(setup.writer));
  }
  auto proposer = std::make_unique<LlmProposer>(std::move(setup), task, target, options.services);
  FETTLE_RETURN_IF_ERROR(proposer->Prepare());
  return proposer;
}

}  // namespace fettle
