// SPDX-License-Identifier: Apache-2.0
#include "store/proposal_store.h"

#include "core/status_macros.h"
#include "store/row_io.h"

namespace fettle {
namespace {

#define FETTLE_PROPOSAL_COLUMNS                                                           \
  "job_id, sequence, key, request_digest, candidate_digest, state, kernel_json, parent, " \
  "technique, rationale, fit, created_ns"
#define FETTLE_PROPOSAL_SELECT "SELECT " FETTLE_PROPOSAL_COLUMNS " FROM proposals "

ProposalRow ReadProposal(const Statement& statement) {
  RowReader read(statement);
  ProposalRow row;
  row.job_id = read.Text();
  row.sequence = read.Int();
  row.key = read.Text();
  row.request_digest = read.Text();
  row.candidate_digest = read.Text();
  row.state = read.Text();
  row.kernel_json = read.Text();
  row.parent = read.Text();
  row.technique = read.Text();
  row.rationale = read.Text();
  row.fit = read.Int();
  row.created_ns = read.Int();
  return row;
}

absl::StatusOr<std::int64_t> OneNumber(Statement& statement) {
  FETTLE_ASSIGN_OR_RETURN(const bool found, statement.Step());
  return found ? statement.Int64(0) : 0;
}

}  // namespace

absl::Status InsertProposal(Connection& db, ProposalRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement last,
      db.Cached("SELECT coalesce(max(sequence), 0) + 1 FROM proposals WHERE job_id = ?"));
  last->Bind(1, std::string_view(row.job_id));
  FETTLE_ASSIGN_OR_RETURN(row.sequence, OneNumber(*last));
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                          db.Cached("INSERT INTO proposals (" FETTLE_PROPOSAL_COLUMNS
                                    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.job_id)
      .Int(row.sequence)
      .Text(row.key)
      .Text(row.request_digest)
      .Text(row.candidate_digest)
      .Text(row.state)
      .Text(row.kernel_json)
      .Text(row.parent)
      .Text(row.technique)
      .Text(row.rationale)
      .Int(row.fit)
      .Int(row.created_ns);
  return insert->Run();
}

absl::StatusOr<std::optional<ProposalRow>> FindProposalByKey(Connection& db,
                                                             std::string_view job_id,
                                                             std::string_view key) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached(FETTLE_PROPOSAL_SELECT "WHERE job_id = ? AND key = ?"));
  RowBinder(*select).Text(job_id).Text(key);
  return ReadFirst<ProposalRow>(*select, ReadProposal);
}

absl::StatusOr<std::optional<ProposalRow>> FindProposalByCandidate(Connection& db,
                                                                   std::string_view job_id,
                                                                   std::string_view digest) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_PROPOSAL_SELECT "WHERE job_id = ?1 AND candidate_digest >= ?2 AND "
                                       "candidate_digest < ?2 || 'g' ORDER BY sequence LIMIT 1"));
  RowBinder(*select).Text(job_id).Text(digest);
  return ReadFirst<ProposalRow>(*select, ReadProposal);
}

absl::StatusOr<std::vector<ProposalRow>> QueuedProposals(Connection& db, std::string_view job_id,
                                                         int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_PROPOSAL_SELECT
                "WHERE job_id = ? AND state = 'queued' ORDER BY sequence LIMIT ?"));
  RowBinder(*select).Text(job_id).Int(limit);
  return ReadAll<ProposalRow>(*select, ReadProposal);
}

absl::StatusOr<std::vector<ProposalRow>> FitProposals(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_PROPOSAL_SELECT
                "WHERE job_id = ? AND state = 'taken' AND fit > 0 ORDER BY sequence"));
  select->Bind(1, job_id);
  return ReadAll<ProposalRow>(*select, ReadProposal);
}

absl::StatusOr<std::int64_t> CountQueuedProposals(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT count(*) FROM proposals WHERE job_id = ? AND state = 'queued'"));
  select->Bind(1, job_id);
  return OneNumber(*select);
}

absl::Status MarkProposalTaken(Connection& db, std::string_view job_id, std::int64_t sequence) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE proposals SET state = 'taken' WHERE job_id = ? AND sequence = ?"));
  RowBinder(*update).Text(job_id).Int(sequence);
  return update->Run();
}

absl::StatusOr<bool> PutDirection(Connection& db, std::string_view job_id, const DirectionRow& row,
                                  std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO directions (job_id, direction, holder, until_ns) VALUES (?1, ?2, ?3, "
                "?4) ON CONFLICT (job_id, direction) DO UPDATE SET holder = ?3, until_ns = ?4 "
                "WHERE holder = ?3 OR until_ns <= ?5"));
  RowBinder(*insert)
      .Text(job_id)
      .Text(row.direction)
      .Text(row.holder)
      .Int(row.until_ns)
      .Int(now_ns);
  FETTLE_RETURN_IF_ERROR(insert->Run());
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT holder = ? FROM directions WHERE job_id = ? AND direction = ?"));
  RowBinder(*select).Text(row.holder).Text(job_id).Text(row.direction);
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t mine, OneNumber(*select));
  return mine != 0;
}

absl::Status DropDirectionsAfter(Connection& db, std::string_view job_id, std::int64_t ns) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement drop,
                          db.Cached("DELETE FROM directions WHERE job_id = ? AND until_ns > ?"));
  RowBinder(*drop).Text(job_id).Int(ns);
  return drop->Run();
}

absl::Status DropDirection(Connection& db, std::string_view job_id, std::string_view direction,
                           std::string_view holder) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement drop,
      db.Cached("DELETE FROM directions WHERE job_id = ? AND direction = ? AND holder = ?"));
  RowBinder(*drop).Text(job_id).Text(direction).Text(holder);
  return drop->Run();
}

absl::StatusOr<std::vector<DirectionRow>> LiveDirections(Connection& db, std::string_view job_id,
                                                         std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT direction, holder, until_ns FROM directions WHERE job_id = ? AND until_ns "
                "> ? ORDER BY direction LIMIT 100"));
  RowBinder(*select).Text(job_id).Int(now_ns);
  return ReadAll<DirectionRow>(*select, [](const Statement& statement) {
    RowReader read(statement);
    DirectionRow row;
    row.direction = read.Text();
    row.holder = read.Text();
    row.until_ns = read.Int();
    return row;
  });
}

absl::Status InsertTry(Connection& db, TryRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement last,
      db.Cached("SELECT coalesce(max(sequence), 0) + 1 FROM tries WHERE job_id = ?"));
  last->Bind(1, std::string_view(row.job_id));
  FETTLE_ASSIGN_OR_RETURN(row.sequence, OneNumber(*last));
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO tries (job_id, sequence, mode, candidate_digest, verdict, device_ms, "
                "created_ns) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.job_id)
      .Int(row.sequence)
      .Text(row.mode)
      .Text(row.candidate_digest)
      .Text(row.verdict)
      .Int(row.device_ms)
      .Int(row.created_ns);
  return insert->Run();
}

absl::Status UpdateTry(Connection& db, const TryRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached(
          "UPDATE tries SET (candidate_digest, verdict, device_ms) = (?, ?, ?) WHERE job_id = "
          "? AND sequence = ?"));
  RowBinder(*update)
      .Text(row.candidate_digest)
      .Text(row.verdict)
      .Int(row.device_ms)
      .Text(row.job_id)
      .Int(row.sequence);
  return update->Run();
}

absl::StatusOr<std::int64_t> CountTries(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached("SELECT count(*) FROM tries WHERE job_id = ?"));
  select->Bind(1, job_id);
  return OneNumber(*select);
}

}  // namespace fettle
