// SPDX-License-Identifier: Apache-2.0
// The dispatcher's use of workers without a device: they compile what waits for one.

#include <spdlog/spdlog.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/dispatch_rules.h"
#include "server/dispatcher.h"
#include "store/blob_files.h"

namespace fettle {
namespace {

// Builds of one candidate: one per dtype and specialized size.
constexpr std::size_t kMaxCompiled = 256;

// What the worker compiled, by key; empty where its answer is none.
std::map<std::string, std::string> CompiledOf(const std::string& result_json) {
  if (result_json.size() > limits::kMaxResultJsonBytes) return {};
  const absl::StatusOr<UnitResult> result = UnitResultFromJson(ParseJson(result_json));
  if (!result.ok() || result->compiled.size() > kMaxCompiled) return {};
  for (const auto& [key, blob] : result->compiled) {
    if (!IsDigest(key) || !IsDigest(blob)) return {};
  }
  return result->compiled;
}

}  // namespace

bool Dispatcher::CanCompile(const Worker& worker, const UnitTicket& ticket) const {
  return worker.view.compiles_only() && !worker.draining && worker.view.held < worker.view.slots &&
         dispatch::Serves(worker.view, ticket.row.job_id) &&
         worker.view.toolchains.contains(ticket.unit.target) &&
         dispatch::HasToolchain(worker.view, ticket.unit.target, ticket.toolchain);
}

bool Dispatcher::CompilerIsFree(const UnitTicket& ticket) const {
  for (const auto& [link, worker] : workers_) {
    if (CanCompile(worker, ticket)) return true;
  }
  return false;
}

void Dispatcher::CompileAhead() {
  const Round round = BeginRound();
  if (round.compilers.empty()) return;
  for (const std::string& job : rotation_) {
    for (const std::string& id : pending_.at(job)) {
      Unit& unit = *units_.at(id);
      if (unit.ticket.unit.kind != UnitKind::kEvaluate || unit.ticket.unit.check_mode ||
          unit.ahead != Ahead::kNot) {
        continue;
      }
      Worker* best = nullptr;  // The one with the most room.
      for (const Worker* one : round.compilers) {
        Worker& worker = workers_.at(one->link.get());
        const auto free = [](const Worker& of) { return of.view.slots - of.view.held; };
        if (!CanCompile(worker, unit.ticket)) continue;
        if (best == nullptr || free(worker) > free(*best)) best = &worker;
      }
      if (best != nullptr) TellAhead(unit, *best);
    }
  }
}

void Dispatcher::TellAhead(Unit& unit, Worker& worker) {
  unit.ahead = Ahead::kUnderWay;
  unit.compiler = worker.link.get();
  unit.ahead_until = clock_.Steady() + limits::kCompileAhead;
  ++worker.view.held;
  views_stale_ = true;
  WorkUnit work = unit.ticket.unit;
  work.kind = UnitKind::kCompile;
  work.id = unit.ticket.row.id + std::string(dispatch::kAheadSuffix);
  work.attempt = unit.ticket.row.attempt;
  work.deadline_ms = limits::kCompileAhead.count();
  v1::ServerMessage message;
  message.mutable_lease()->set_unit_json(ToJson(work).dump(-1, ' ', false, kReplaceInvalid));
  message.mutable_lease()->set_deadline_ms(work.deadline_ms);
  Tell(worker, std::move(message));
}

void Dispatcher::LoseCompiler(WorkerLink* link) {
  for (auto& [id, unit] : units_) {
    if (unit->compiler != link) continue;
    unit->compiler = nullptr;
    // It may be what ends them.
    const bool again = ++unit->compilers_lost < limits::kMaxCompilersLost;
    unit->ahead = again ? Ahead::kNot : Ahead::kOver;
  }
}

bool Dispatcher::ResumeAhead(Worker& worker, const std::string& ahead_id, int attempt) {
  const auto found = units_.find(dispatch::UnitOfAhead(ahead_id));
  if (found == units_.end()) return false;
  Unit& unit = *found->second;
  if (unit.state != State::kPending || unit.ahead != Ahead::kNot ||
      unit.ticket.row.attempt != attempt || !CanCompile(worker, unit.ticket)) {
    return false;
  }
  unit.ahead = Ahead::kUnderWay;
  unit.compiler = worker.link.get();
  unit.ahead_until = clock_.Steady() + limits::kCompileAhead;
  ++worker.view.held;
  return true;
}

void Dispatcher::EndAhead(WorkerLink* link, const std::string& ahead_id, int attempt,
                          const std::string* result_json) {
  Acknowledge(link, ahead_id, attempt);
  const auto found = units_.find(dispatch::UnitOfAhead(ahead_id));
  if (found == units_.end()) return;
  Unit& unit = *found->second;
  if (unit.ahead != Ahead::kUnderWay || unit.compiler != link) return;
  const auto worker = workers_.find(link);
  if (worker != workers_.end()) {
    --worker->second.view.held;
    views_stale_ = true;
  }
  unit.compiler = nullptr;
  // One that drains says nothing about the unit; another may compile it.
  const bool drains = worker != workers_.end() && worker->second.draining;
  unit.ahead = result_json == nullptr && drains ? Ahead::kNot : Ahead::kOver;
  if (result_json == nullptr) return;
  unit.ticket.unit.compiled = CompiledOf(*result_json);
  if (!unit.ticket.unit.compiled.empty()) ++counts_.compiled_ahead;
}

void Dispatcher::StopAhead(Unit& unit) {
  if (unit.ahead != Ahead::kUnderWay) return;
  unit.ahead = Ahead::kOver;
  const auto worker = workers_.find(unit.compiler);
  unit.compiler = nullptr;
  if (worker == workers_.end()) return;
  TellCancel(worker->second, unit.ticket.row.id + std::string(dispatch::kAheadSuffix),
             unit.ticket.row.attempt);
  --worker->second.view.held;
  views_stale_ = true;
}

}  // namespace fettle
