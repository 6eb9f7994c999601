// SPDX-License-Identifier: Apache-2.0
// The proposing half of a job: what is tried next, and when to stop.

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/job_events.h"
#include "server/job_kernels.h"
#include "server/job_measures.h"
#include "server/job_run.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/proposal_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

constexpr int kMinWindow = 2;
constexpr int kMaxWindow = 64;
constexpr int kReplayPage = 500;
constexpr std::int64_t kUnitsPerCandidate = 2;  // Its evaluation and its confirmation.
// From the lease; a worker may hold a second unit before it turns to this one.
constexpr std::int64_t kEvaluateDeadlineMs = 300'000;
constexpr std::int64_t kConfirmDeadlineMs = 600'000;
// What contenders get for their confirmation when the job's time is over: a twentieth of it, within
// these bounds.
constexpr std::int64_t kMinGraceMs = 5'000;
constexpr std::int64_t kMaxGraceMs = 60'000;

Outcome OutcomeOf(const CandidateRow& row) {
  Outcome outcome;
  outcome.candidate_digest = row.digest;
  outcome.values = ParseValues(row.values_json);
  outcome.technique = row.technique;
  const auto json = nlohmann::json::parse(row.verdict_json, nullptr, /*allow_exceptions=*/false);
  if (absl::StatusOr<VerdictRecord> verdict = VerdictRecordFromJson(json); verdict.ok()) {
    outcome.verdict = WithoutSecrets(*std::move(verdict));
  }
  if (row.ratio > 0) outcome.ratio = row.ratio;
  return outcome;
}

}  // namespace

absl::Status JobRun::LoadDenominator() {
  FETTLE_ASSIGN_OR_RETURN(denominator_, FindDenominator(context_.store, *task_, job_));
  std::optional<CandidateRow> incumbent;
  std::optional<VariantRow> incumbent_variant;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    if (job_.incumbent_ordinal == 0) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(incumbent, FindCandidate(db, id_, job_.incumbent_ordinal));
    FETTLE_ASSIGN_OR_RETURN(incumbent_variant, FindVariant(db, job_.best_variant));
    return absl::OkStatus();
  }));
  incumbent_.reset();
  if (incumbent.has_value()) {
    FETTLE_ASSIGN_OR_RETURN(incumbent_, LoadKernel(context_.store, *incumbent));
    incumbent_roofline_ = incumbent_variant.has_value() ? incumbent_variant->roofline_fraction : 0;
  }
  return absl::OkStatus();
}

std::int64_t JobRun::StageBudget() const {
  const std::int64_t all = job_.budget.candidates;
  if (job_.stage == job_stage::kTune) {
    const std::int64_t share =
        all == 0 ? 1000 : static_cast<std::int64_t>(static_cast<double>(all) * options_.tune_share);
    return std::max<std::int64_t>(1, share);
  }
  return all;
}

absl::Status JobRun::PrepareSearch() {
  FETTLE_RETURN_IF_ERROR(LoadDenominator());
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(stage_candidates_, CountCandidates(db, id_, job_.stage));
    return absl::OkStatus();
  }));
  ProposerOptions options;
  options.seed = job_.seed;
  options.budget = StageBudget();
  options.options_json = job_.options_json;
  options.services.agent = context_.agent;
  options.services.store = &context_.store;
  options.services.dispatcher = &context_.dispatcher;
  options.services.clock = &context_.clock;
  options.services.job_id = id_;
  options.services.device_time = device_time_;
  // The proposer ends before this object does.
  options.services.wake = [this] { Poke(); };
  options.services.charged = [this] { CountCharges(); };
  options.services.note = [this](std::string code, std::string text) {
    AddNote(std::move(code), std::move(text));
  };
  const std::string kind = job_.stage == job_stage::kTune ? "tuner" : job_.proposer;
  FETTLE_ASSIGN_OR_RETURN(proposer_, context_.proposers(kind, *task_, target_, options));
  if (absl::Status fits = RestoreFits(); !fits.ok()) {
    proposer_.reset();
    return fits;
  }
  if (absl::Status replayed = ReplayOutcomes(); !replayed.ok()) {
    proposer_.reset();
    return replayed;
  }
  return absl::OkStatus();
}

absl::Status JobRun::RestoreFits() {
  if (job_.stage != job_stage::kSearch) return absl::OkStatus();
  std::vector<ProposalRow> rows;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, FitProposals(db, id_));
    return absl::OkStatus();
  }));
  for (const ProposalRow& row : rows) {
    const auto json = nlohmann::json::parse(row.kernel_json, nullptr, /*allow_exceptions=*/false);
    FETTLE_ASSIGN_OR_RETURN(const KernelSpec kernel, KernelSpecFromJson(json));
    proposer_->Fit(kernel, row.candidate_digest, row.fit);
  }
  return absl::OkStatus();
}

absl::Status JobRun::ReplayOutcomes() {
  std::int64_t after = 0;
  while (true) {
    std::vector<CandidateRow> rows;
    FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(rows, JudgedCandidates(db, id_, job_.stage, after, kReplayPage));
      return absl::OkStatus();
    }));
    if (rows.empty()) return absl::OkStatus();
    for (const CandidateRow& row : rows) proposer_->Observe(OutcomeOf(row));
    after = rows.back().judged_order;
  }
}

std::string JobRun::EnoughReason() const {
  if (options_.speedup_stop <= 0 || job_.stage != job_stage::kSearch ||
      job_.best_ratio_declared < options_.speedup_stop) {
    return "";
  }
  return fmt::format("{:.3f} times as fast as declared is enough (speedup_stop)",
                     job_.best_ratio_declared);
}

std::string JobRun::StopReason() const {
  if (std::string enough = EnoughReason(); !enough.empty()) return enough;
  const BudgetRow& budget = job_.budget;
  const BudgetRow& spent = job_.spent;
  const auto time_over = [&budget] {
    return fmt::format("the time of {} s is over", static_cast<double>(budget.wall_ms) / 1000);
  };
  // What it cut short would have gone on whatever else is spent: candidates under way, and after a
  // tune stage the search.
  if (given_back_ > 0 || (job_.stage == job_stage::kTune && OverTimeMs() >= 0)) return time_over();
  if (budget.candidates > 0 && spent.candidates >= budget.candidates) {
    return fmt::format("the budget of {} candidates is spent", budget.candidates);
  }
  if (job_.stage == job_stage::kTune && stage_candidates_ >= StageBudget()) {
    return fmt::format("{} candidates, the share for tuning", stage_candidates_);
  }
  if (job_.stage == job_stage::kTune && stage_candidates_ > 0 && OverTimeMs() < 0) {
    const auto share = [this](std::int64_t all) {
      return static_cast<std::int64_t>(static_cast<double>(all) * options_.tune_share);
    };
    if (budget.wall_ms > 0 && OverTimeMs() + budget.wall_ms >= share(budget.wall_ms)) {
      return "the share of the time for tuning is over";
    }
    if (budget.device_ms > 0 && spent.device_ms >= share(budget.device_ms)) {
      return "the share of the device time for tuning is spent";
    }
  }
  if (OverTimeMs() >= 0) return time_over();
  if (budget.device_ms > 0 && spent.device_ms >= budget.device_ms) {
    return fmt::format("the device time of {} s is spent",
                       static_cast<double>(budget.device_ms) / 1000);
  }
  const std::int64_t next_ms =
      std::max<std::int64_t>(kUnitsPerCandidate, kUnitsPerCandidate * device_time_->longest_ms());
  if (budget.device_ms > 0 && budget.device_ms - spent.device_ms < next_ms) {
    return fmt::format("the device time of {} s is spent: {} s left, and a candidate may take {} s",
                       static_cast<double>(budget.device_ms) / 1000,
                       static_cast<double>(budget.device_ms - spent.device_ms) / 1000,
                       static_cast<double>(next_ms) / 1000);
  }
  if (options_.plateau > 0 && job_.since_improvement >= options_.plateau) {
    return fmt::format("no better variant in the last {} candidates (plateau)",
                       job_.since_improvement);
  }
  if (options_.roofline_stop > 0 && incumbent_roofline_ >= options_.roofline_stop) {
    return fmt::format("the best variant reaches {:.0f} % of the roofline",
                       100 * incumbent_roofline_);
  }
  if (duplicate_rounds_ >= limits::kMaxDuplicateRounds) {
    return "the proposer only repeats candidates that were tried";
  }
  if (proposer_->exhausted()) return proposer_->why_exhausted();
  return "";
}

std::int64_t JobRun::DeviceRoom() const {
  if (job_.budget.device_ms == 0) return std::numeric_limits<int>::max();
  if (device_time_->longest_ms() == 0 && job_.judged_count == 0) {
    return 1 - static_cast<std::int64_t>(open_.size());
  }
  return device_time_->Room(kUnitsPerCandidate);
}

std::int64_t JobRun::OverTimeMs() const {
  if (job_.budget.wall_ms == 0) return -1;
  const auto since_start =
      std::chrono::duration_cast<std::chrono::milliseconds>(context_.clock.Steady() - wall_start_);
  return wall_base_ms_ + since_start.count() - job_.budget.wall_ms;
}

void JobRun::GiveBackLate() {
  const std::int64_t grace = std::clamp(job_.budget.wall_ms / 20, kMinGraceMs, kMaxGraceMs);
  GiveBack(/*confirmations_too=*/OverTimeMs() >= grace);
}

void JobRun::GiveBack(bool confirmations_too) {
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [ordinal, open] = entry;
    if (open.confirm_queued && !confirmations_too) return false;
    context_.dispatcher.CancelUnit(UnitId(id_, ordinal, UnitPurpose::kEvaluate));
    context_.dispatcher.CancelUnit(UnitId(id_, ordinal, open.confirmation()));
    ++given_back_;
    return true;
  });
  if (!confirmations_too) return;
  confirm_queue_.clear();
  confirming_ = 0;
}

int JobRun::Window() const {
  const DeviceCapacity capacity =
      context_.dispatcher.Capacity({job_.target, job_.device_model, job_.toolchain}, id_);
  // Beyond a few machines: one on each device and one that compiles meanwhile. The rest of the
  // slots would only be filled with candidates that know less.
  const int most = std::max(kMaxWindow, 2 * capacity.devices + 1);
  return std::clamp(capacity.slots + capacity.ahead + 1, kMinWindow, most);
}

absl::StatusOr<bool> JobRun::StepSearch(std::stop_token stop) {
  if (proposer_ == nullptr) {
    FETTLE_RETURN_IF_ERROR(PrepareSearch());
    return true;
  }
  if (!EnoughReason().empty()) {
    GiveBack(/*confirmations_too=*/true);
  } else if (OverTimeMs() >= 0) {
    GiveBackLate();
  }
  FETTLE_ASSIGN_OR_RETURN(const bool confirming, StartConfirmation());
  if (confirming) return true;
  const std::string reason = StopReason();
  if (!reason.empty()) {
    if (!open_.empty()) return false;
    FETTLE_RETURN_IF_ERROR(EndStage(reason));
    return true;
  }
  if (stop.stop_requested()) return false;
  const int slots =
      context_.dispatcher.Capacity({job_.target, job_.device_model, job_.toolchain}, id_).slots;
  if (slots == 0 && !open_.empty()) {
    SetWaiting(fmt::format("waits for a worker with a {} ({}){}", job_.device_model, job_.target,
                           job_.toolchain.empty() ? "" : " and " + job_.toolchain));
    return false;
  }
  int room = static_cast<int>(
      std::min<std::int64_t>(Window() - static_cast<int>(open_.size()), DeviceRoom()));
  if (job_.budget.candidates > 0) {
    room = static_cast<int>(
        std::min<std::int64_t>(room, job_.budget.candidates - job_.spent.candidates));
  }
  if (job_.stage == job_stage::kTune) {
    room = static_cast<int>(std::min<std::int64_t>(room, StageBudget() - stage_candidates_));
  }
  if (room <= 0) return false;
  if (job_.stage == job_stage::kSearch) {
    FETTLE_ASSIGN_OR_RETURN(const int taken, TakeProposals(room));
    if (taken > 0) return true;
  }
  if (job_.proposer == "external" && job_.stage == job_stage::kSearch && open_.empty()) {
    SetWaiting("waits for proposals: fettle propose, or fettle mcp");
  }
  FETTLE_ASSIGN_OR_RETURN(const int proposed, ProposeMore(room));
  return proposed > 0 || proposer_->exhausted();
}

JobRun::Open JobRun::MakeOpen(const Proposal& proposal) const {
  Open open;
  open.kernel.kernel = proposal.kernel;
  open.kernel.kernel.values = proposal.values;
  open.kernel.values = proposal.values;
  open.kernel.digest =
      CandidateDigest(task_->digest(), job_.target, open.kernel.kernel, proposal.values);
  CandidateRow& row = open.row;
  row.job_id = id_;
  row.digest = open.kernel.digest;
  row.values_json = nlohmann::json(proposal.values).dump(-1, ' ', false, kReplaceInvalid);
  row.parent = proposal.parent;
  row.proposer = std::string(proposer_->name());
  row.technique = CutText(proposal.technique, limits::kMaxNameBytes);
  row.rationale = CutText(proposal.rationale, limits::kMaxRationaleBytes);
  row.stage = job_.stage;
  return open;
}

absl::StatusOr<int> JobRun::TakeProposals(int room) {
  std::vector<ProposalRow> rows;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, QueuedProposals(db, id_, room));
    return absl::OkStatus();
  }));
  if (rows.empty()) return 0;
  std::vector<Open> fresh;
  std::vector<std::pair<KernelSpec, const ProposalRow*>> fits;
  for (const ProposalRow& row : rows) {
    const auto json = nlohmann::json::parse(row.kernel_json, nullptr, /*allow_exceptions=*/false);
    Proposal proposal;
    FETTLE_ASSIGN_OR_RETURN(proposal.kernel, KernelSpecFromJson(json));
    proposal.values = proposal.kernel.values;
    proposal.parent = row.parent;
    proposal.technique = row.technique;
    proposal.rationale = row.rationale;
    Open open = MakeOpen(proposal);
    std::optional<CandidateRow> known;
    FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(known, FindCandidateByDigest(db, id_, open.row.digest));
      return absl::OkStatus();
    }));
    const bool twice = std::any_of(fresh.begin(), fresh.end(), [&](const Open& other) {
      return other.row.digest == open.row.digest;
    });
    if (row.fit > 0) fits.emplace_back(proposal.kernel, &row);
    if (!known.has_value() && !twice) fresh.push_back(std::move(open));
  }
  const absl::Status added = AddCandidates(std::move(fresh), [&](Connection& db) -> absl::Status {
    for (const ProposalRow& row : rows) {
      FETTLE_RETURN_IF_ERROR(MarkProposalTaken(db, id_, row.sequence));
    }
    return absl::OkStatus();
  });
  if (!added.ok()) return added;
  for (const auto& [kernel, row] : fits) proposer_->Fit(kernel, row->candidate_digest, row->fit);
  return static_cast<int>(rows.size());
}

// Returns how many proposals came, duplicates included.
absl::StatusOr<int> JobRun::ProposeMore(int room) {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Proposal> proposals,
                          proposer_->Propose(room, propose_stop_.get_token()));
  std::vector<Open> fresh;
  for (const Proposal& proposal : proposals) {
    Open open = MakeOpen(proposal);
    const CandidateRow& row = open.row;
    std::optional<CandidateRow> known;
    FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(known, FindCandidateByDigest(db, id_, row.digest));
      return absl::OkStatus();
    }));
    if (known.has_value()) {
      // Evaluated once, whichever proposer sent it; its outcome is still news to this one.
      if (known->judged_order > 0) proposer_->Observe(OutcomeOf(*known));
      continue;
    }
    const bool twice = std::any_of(fresh.begin(), fresh.end(), [&](const Open& other) {
      return other.row.digest == row.digest;
    });
    if (!twice) fresh.push_back(std::move(open));
  }
  if (fresh.empty()) {
    // With candidates under way their outcomes may bring new ideas.
    if (!open_.empty()) return 0;
    if (!proposals.empty()) ++duplicate_rounds_;
    return static_cast<int>(proposals.size());
  }
  duplicate_rounds_ = 0;
  // Only as many as there was room for; a proposer that sends more may send the rest again.
  if (fresh.size() > static_cast<std::size_t>(room)) {
    fresh.erase(fresh.begin() + room, fresh.end());
  }
  if (absl::Status added = AddCandidates(std::move(fresh)); !added.ok()) {
    proposer_.reset();  // It takes these proposals for made: rebuild it from what is stored.
    return added;
  }
  return static_cast<int>(proposals.size());
}

absl::Status JobRun::AddCandidates(std::vector<Open> fresh,
                                   const std::function<absl::Status(Connection&)>& also) {
  std::vector<UnitRow> units;
  std::map<std::string, KernelRow> kernels;
  std::int64_t ordinal = job_.candidate_count;
  // What others may want of the device time: candidates up to the window, and tries.
  std::int64_t shares = std::max<std::int64_t>(Window() - static_cast<int>(open_.size()),
                                               static_cast<std::int64_t>(fresh.size()));
  if (job_.stage == job_stage::kSearch && MostlyWaits(job_.proposer)) ++shares;
  const auto release = [&] {
    for (const Open& open : fresh) device_time_->Release(ReservationOf(open.row.ordinal));
  };
  for (Open& open : fresh) {
    open.row.ordinal = ++ordinal;
    if (const auto reserved =
            device_time_->Reserve(ReservationOf(ordinal), kUnitsPerCandidate, shares--);
        !reserved.ok()) {
      release();
      return reserved.status();
    }
    open.row.created_ns = context_.clock.NowNs();
    KernelRow kernel;
    kernel.json = SharedKernelJson(open.kernel.kernel);
    kernel.digest = Sha256Hex(kernel.json);
    kernel.source_digest = Sha256Hex(open.kernel.kernel.source);
    open.row.kernel_digest = kernel.digest;
    kernels.emplace(kernel.digest, std::move(kernel));
    units.push_back(NewUnit(open.row.ordinal, UnitPurpose::kEvaluate));
  }
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        for (const auto& [digest, kernel] : kernels)
          FETTLE_RETURN_IF_ERROR(InsertKernel(db, kernel));
        for (const Open& open : fresh) FETTLE_RETURN_IF_ERROR(InsertCandidate(db, open.row));
        for (const UnitRow& unit : units) FETTLE_RETURN_IF_ERROR(InsertUnit(db, unit));
        if (also) FETTLE_RETURN_IF_ERROR(also(db));
        job.candidate_count = ordinal;
        job.spent.candidates +=
            static_cast<std::int64_t>(fresh.size());  // Reserved and spent at once.
        return absl::OkStatus();
      });
      !stored.ok()) {
    release();
    return stored;
  }
  stage_candidates_ += static_cast<std::int64_t>(fresh.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    WorkUnit work = MakeWork(units[i], &fresh[i].kernel);
    const std::int64_t key = fresh[i].row.ordinal;
    open_[key] = std::move(fresh[i]);
    Dispatch(std::move(units[i]), std::move(work), {});
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> JobRun::StartConfirmation() {
  if (confirming_ != 0 || confirm_queue_.empty()) return false;
  // The fastest first: once it is accepted, the slower ones need no confirmation.
  const auto next = std::ranges::max_element(
      confirm_queue_, {}, [&](std::int64_t waiting) { return open_.at(waiting).row.ratio; });
  const std::int64_t ordinal = *next;
  const Open& open = open_.at(ordinal);
  if (job_.incumbent_ordinal != 0 &&
      open.row.ratio <= job_.incumbent_ratio * (1 + context_.rule.min_step)) {
    FETTLE_RETURN_IF_ERROR(DropContender(open.row));
    return true;
  }
  UnitRow row = NewUnit(ordinal, open.confirmation());
  FETTLE_RETURN_IF_ERROR(Commit([&](Connection& db, JobRow&) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::vector<UnitRow> before, UnitAttempts(db, row.id));
    if (!before.empty()) row.attempt = before.back().attempt + 1;  // A resumed job.
    return InsertUnit(db, row);
  }));
  std::erase(confirm_queue_, ordinal);
  confirming_ = ordinal;
  WorkUnit work = MakeWork(row, &open.kernel);
  Dispatch(std::move(row), std::move(work), {});
  return true;
}

UnitRow JobRun::NewUnit(std::int64_t ordinal, UnitPurpose purpose) const {
  UnitRow row;
  row.id = UnitId(id_, ordinal, purpose);
  row.job_id = id_;
  row.ordinal = ordinal;
  row.kind = std::string(UnitKindName(purpose == UnitPurpose::kRegister   ? UnitKind::kRegister
                                      : purpose == UnitPurpose::kEvaluate ? UnitKind::kEvaluate
                                                                          : UnitKind::kConfirm));
  if (purpose == UnitPurpose::kEvaluate) {
    row.seed = evaluation_seeds_[RandomSeed() % evaluation_seeds_.size()];
  } else {
    row.seed = RandomSeed();
    row.held_out_seed = RandomSeed();
  }
  row.incumbent_ordinal = job_.incumbent_ordinal;
  row.device_cap_ms = device_time_->CapOf(ReservationOf(ordinal));
  // Its confirmation comes out of the same reservation.
  if (purpose == UnitPurpose::kEvaluate && row.device_cap_ms > 0) {
    row.device_cap_ms = std::max<std::int64_t>(1, row.device_cap_ms / kUnitsPerCandidate);
  }
  row.created_ns = context_.clock.NowNs();
  return row;
}

WorkUnit JobRun::MakeWork(const UnitRow& row, const KernelUnderTest* kernel) const {
  WorkUnit work;
  work.kind = ParseUnitKind(row.kind).value_or(UnitKind::kEvaluate);
  work.job_id = id_;
  work.task_digest = job_.task_digest;
  work.task_blob = task_row_.blob;
  work.target = job_.target;
  work.device_model = job_.device_model;
  work.seed = row.seed;
  work.held_out_seed = row.held_out_seed;
  work.time_cap_s = options_.time_cap_s;
  work.device_cap_ms = row.device_cap_ms;
  work.denominator = denominator_;
  if (work.kind == UnitKind::kRegister) {
    const KernelSpec& baseline = task_->baseline();
    work.denominator = {CandidateDigest(task_->digest(), job_.target, baseline, baseline.values),
                        baseline, baseline.values};
    work.candidate = work.denominator;
    work.search_seeds.assign(evaluation_seeds_.begin(), evaluation_seeds_.end());
    work.deadline_ms = limits::kRegisterDeadlineMs;
    return work;
  }
  work.candidate = *kernel;
  work.incumbent_ratio = job_.incumbent_ratio;
  work.deadline_ms = kEvaluateDeadlineMs;
  if (work.kind == UnitKind::kConfirm) {
    work.incumbent = incumbent_;
    work.screen = false;
    work.deadline_ms = kConfirmDeadlineMs;
  }
  return work;
}

void JobRun::Dispatch(UnitRow row, WorkUnit work, const UnitHistory& history) {
  UnitTicket ticket;
  ticket.failures = history.failures;
  ticket.deaths = history.deaths;
  ticket.toolchain = job_.toolchain;
  if (work.kind == UnitKind::kConfirm) {
    // What was fast on one device should be fast on another of its model.
    if (const auto open = open_.find(row.ordinal); open != open_.end()) {
      ticket.other_than = open->second.measured_by;
    }
  }
  ticket.row = std::move(row);
  ticket.unit = std::move(work);
  const std::string reservation = ReservationOf(ticket.row.ordinal);
  ticket.done = [inbox = inbox_, time = device_time_, reservation](UnitEnd outcome) {
    {
      const std::lock_guard lock(inbox->mutex);
      if (!inbox->ended) {
        inbox->outcomes.push_back(std::move(outcome));
        inbox->wake.notify_all();
        return;
      }
    }
    time->Charge(reservation, DeviceMsOf(outcome.result_json).value_or(0));
  };
  ticket.charge = [time = device_time_, reservation](std::int64_t device_ms, bool last) {
    time->Charge(reservation, device_ms);
    if (last) time->Release(reservation);
  };
  context_.dispatcher.Enqueue(std::move(ticket));
}

}  // namespace fettle
