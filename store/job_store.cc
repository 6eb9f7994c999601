// SPDX-License-Identifier: Apache-2.0
#include "store/job_store.h"

#include "store/compress.h"
#include "store/row_io.h"
#include "store/select_columns.h"

namespace fettle {
namespace {

void BindMutable(RowBinder& bind, const JobRow& job) {
  bind.Text(job.target).Text(job.device_model).Text(job.toolchain).Text(job.state);
  bind.Text(job.stage).Text(job.message);
  bind.Int(job.budget.candidates).Int(job.budget.wall_ms).Int(job.budget.device_ms);
  bind.Int(job.budget.tokens).Real(job.budget.usd);
  bind.Int(job.spent.candidates).Int(job.spent.wall_ms).Int(job.spent.device_ms);
  bind.Int(job.spent.tokens).Real(job.spent.usd);
  bind.Int(job.candidate_count).Int(job.judged_count).Int(job.since_improvement);
  bind.Int(job.confirmations).Int(job.incumbent_ordinal).Real(job.incumbent_ratio);
  bind.Text(job.tuned_variant).Real(job.tuned_ratio).Text(job.best_variant);
  bind.Real(job.best_ratio_declared).Real(job.best_ratio_tuned).Text(job.space_size);
  bind.Int(job.last_sequence).Int(job.started_ns).Int(job.finished_ns);
}

}  // namespace

JobRow ReadJobRow(const Statement& statement) {
  RowReader read(statement);
  JobRow job;
  job.id = read.Text();
  job.request_id = read.Text();
  job.request_digest = read.Text();
  job.task_digest = read.Text();
  job.proposer = read.Text();
  job.options_json = read.Text();
  job.seed = read.Seed();
  job.created_ns = read.Int();
  job.target = read.Text();
  job.device_model = read.Text();
  job.toolchain = read.Text();
  job.state = read.Text();
  job.stage = read.Text();
  job.message = read.Text();
  for (BudgetRow* row : {&job.budget, &job.spent}) {
    row->candidates = read.Int();
    row->wall_ms = read.Int();
    row->device_ms = read.Int();
    row->tokens = read.Int();
    row->usd = read.Real();
  }
  job.candidate_count = read.Int();
  job.judged_count = read.Int();
  job.since_improvement = read.Int();
  job.confirmations = read.Int();
  job.incumbent_ordinal = read.Int();
  job.incumbent_ratio = read.Real();
  job.tuned_variant = read.Text();
  job.tuned_ratio = read.Real();
  job.best_variant = read.Text();
  job.best_ratio_declared = read.Real();
  job.best_ratio_tuned = read.Real();
  job.space_size = read.Text();
  job.last_sequence = read.Int();
  job.started_ns = read.Int();
  job.finished_ns = read.Int();
  job.task_name = read.Text();
  job.cancel_requested = read.Flag();
  return job;
}

absl::Status InsertTask(Connection& db, const TaskRow& task) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO tasks (digest, name, blob, created_ns) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (digest) DO NOTHING"));
  RowBinder(*insert).Text(task.digest).Text(task.name).Text(task.blob).Int(task.created_ns);
  return insert->Run();
}

absl::StatusOr<std::optional<TaskRow>> FindTask(Connection& db, std::string_view digest) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT digest, name, blob, created_ns FROM tasks WHERE digest = ?"));
  select->Bind(1, digest);
  return ReadFirst<TaskRow>(*select, [](const Statement& row) {
    RowReader read(row);
    TaskRow task;
    task.digest = read.Text();
    task.name = read.Text();
    task.blob = read.Text();
    task.created_ns = read.Int();
    return task;
  });
}

absl::Status PutRegistration(Connection& db, const RegistrationRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT OR REPLACE INTO registrations (task_digest, target, fettle_version, "
                "passed, result_zst, created_ns) VALUES (?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.task_digest)
      .Text(row.target)
      .Text(row.fettle_version)
      .Int(row.passed ? 1 : 0)
      .Blob(ZstdCompress(row.result_json))
      .Int(row.created_ns);
  return insert->Run();
}

absl::StatusOr<std::optional<RegistrationRow>> FindRegistration(Connection& db,
                                                                std::string_view task_digest,
                                                                std::string_view target,
                                                                std::string_view fettle_version) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT task_digest, target, fettle_version, passed, result_zst, created_ns FROM "
                "registrations WHERE task_digest = ? AND target = ? AND fettle_version = ?"));
  RowBinder(*select).Text(task_digest).Text(target).Text(fettle_version);
  FETTLE_ASSIGN_OR_RETURN(const bool found, select->Step());
  if (!found) return std::optional<RegistrationRow>();
  RowReader read(*select);
  RegistrationRow row;
  row.task_digest = read.Text();
  row.target = read.Text();
  row.fettle_version = read.Text();
  row.passed = read.Flag();
  FETTLE_ASSIGN_OR_RETURN(row.result_json, ZstdDecompress(read.Text(), kMaxDocumentBytes));
  row.created_ns = read.Int();
  return std::optional<RegistrationRow>(std::move(row));
}

absl::Status InsertJob(Connection& db, const JobRow& job) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO jobs (" FETTLE_JOB_FIXED ", " FETTLE_JOB_MUTABLE
                ", cancel_requested) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"));
  RowBinder bind(*insert);
  bind.Text(job.id).TextOrNull(job.request_id).Text(job.request_digest).Text(job.task_digest);
  bind.Text(job.proposer).Text(job.options_json).Int(job.seed).Int(job.created_ns);
  BindMutable(bind, job);
  return insert->Run();
}

absl::Status UpdateJob(Connection& db, const JobRow& job) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE jobs SET (" FETTLE_JOB_MUTABLE
                ") = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                "?, ?, ?, ?, ?, ?) WHERE id = ?"));
  RowBinder bind(*update);
  BindMutable(bind, job);
  bind.Text(job.id);
  return update->Run();
}

absl::StatusOr<bool> AddDeviceTime(Connection& db, std::string_view id, std::int64_t device_ms) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE jobs SET spent_device_ms = spent_device_ms + ? WHERE id = ? AND state IN "
                "('succeeded', 'failed', 'cancelled')"));
  RowBinder(*update).Int(device_ms).Text(id);
  FETTLE_RETURN_IF_ERROR(update->Run());
  return db.changes() > 0;
}

absl::Status SetCancelRequested(Connection& db, std::string_view id, bool requested) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement update,
                          db.Cached("UPDATE jobs SET cancel_requested = ? WHERE id = ?"));
  RowBinder(*update).Int(requested ? 1 : 0).Text(id);
  return update->Run();
}

absl::StatusOr<std::optional<JobRow>> FindJob(Connection& db, std::string_view id) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select, db.Cached(FETTLE_JOB_SELECT "WHERE id = ?"));
  select->Bind(1, id);
  return ReadFirst<JobRow>(*select, ReadJobRow);
}

absl::StatusOr<std::optional<JobRow>> FindJobByRequest(Connection& db,
                                                       std::string_view request_id) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached(FETTLE_JOB_SELECT "WHERE request_id = ?"));
  select->Bind(1, request_id);
  return ReadFirst<JobRow>(*select, ReadJobRow);
}

absl::StatusOr<std::vector<JobRow>> ListJobs(Connection& db, std::int64_t before_ns,
                                             std::string_view before_id, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_JOB_SELECT "WHERE ?1 = 0 OR (created_ns, id) < (?1, ?2) "
                                  "ORDER BY created_ns DESC, id DESC LIMIT ?3"));
  RowBinder(*select).Int(before_ns).Text(before_id).Int(limit);
  return ReadAll<JobRow>(*select, ReadJobRow);
}

absl::StatusOr<std::vector<std::string>> OpenJobs(Connection& db) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached("SELECT id FROM jobs WHERE state IN ('queued', 'running') "
                                    "ORDER BY created_ns, id"));
  return ReadAll<std::string>(*select, [](const Statement& row) { return row.Text(0); });
}

absl::StatusOr<std::map<std::string, std::int64_t>> VerdictCounts(Connection& db,
                                                                  std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT verdict, count(*) FROM candidates WHERE job_id = ? AND verdict <> '' "
                "GROUP BY verdict"));
  select->Bind(1, job_id);
  std::map<std::string, std::int64_t> counts;
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, select->Step());
    if (!more) return counts;
    counts[select->Text(0)] = select->Int64(1);
  }
}

absl::Status InsertEvent(Connection& db, std::string_view job_id, const EventRow& event) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO events (job_id, sequence, time_ns, terminal, payload) "
                "VALUES (?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(job_id)
      .Int(event.sequence)
      .Int(event.time_ns)
      .Int(event.terminal ? 1 : 0)
      .Blob(event.payload);
  return insert->Run();
}

absl::StatusOr<std::vector<EventRow>> ReadEvents(Connection& db, std::string_view job_id,
                                                 std::int64_t after, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT sequence, time_ns, terminal, payload FROM events WHERE job_id = ? AND "
                "sequence > ? ORDER BY sequence LIMIT ?"));
  RowBinder(*select).Text(job_id).Int(after).Int(limit);
  return ReadAll<EventRow>(*select, [](const Statement& row) {
    RowReader read(row);
    EventRow event;
    event.sequence = read.Int();
    event.time_ns = read.Int();
    event.terminal = read.Flag();
    event.payload = read.Text();
    return event;
  });
}

}  // namespace fettle
