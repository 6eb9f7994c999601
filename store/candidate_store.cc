// SPDX-License-Identifier: Apache-2.0
#include "store/candidate_store.h"

#include <fmt/format.h>

#include "store/row_io.h"

namespace fettle {
namespace {

#define FETTLE_CANDIDATE_COLUMNS                                                                  \
  "job_id, ordinal, digest, kernel_digest, values_json, parent, proposer, technique, rationale, " \
  "stage, state, judged_order, verdict, verdict_json, ratio, created_ns, judged_ns"
#define FETTLE_CANDIDATE_SELECT                                                            \
  "SELECT " FETTLE_CANDIDATE_COLUMNS                                                       \
  ", (SELECT source_digest FROM kernels WHERE kernels.digest = candidates.kernel_digest) " \
  "FROM candidates "

CandidateRow ReadCandidate(const Statement& statement) {
  RowReader read(statement);
  CandidateRow row;
  row.job_id = read.Text();
  row.ordinal = read.Int();
  row.digest = read.Text();
  row.kernel_digest = read.Text();
  row.values_json = read.Text();
  row.parent = read.Text();
  row.proposer = read.Text();
  row.technique = read.Text();
  row.rationale = read.Text();
  row.stage = read.Text();
  row.state = read.Text();
  row.judged_order = read.Int();
  row.verdict = read.Text();
  row.verdict_json = read.Text();
  row.ratio = read.Real();
  row.created_ns = read.Int();
  row.judged_ns = read.Int();
  row.source_digest = read.Text();
  return row;
}

}  // namespace

absl::Status InsertKernel(Connection& db, const KernelRow& kernel) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                          db.Cached("INSERT INTO kernels (digest, source_digest, json) VALUES "
                                    "(?, ?, ?) ON CONFLICT (digest) DO NOTHING"));
  RowBinder(*insert).Text(kernel.digest).Text(kernel.source_digest).Text(kernel.json);
  return insert->Run();
}

absl::StatusOr<std::optional<KernelRow>> FindKernel(Connection& db, std::string_view digest) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT digest, source_digest, json FROM kernels WHERE digest = ?"));
  select->Bind(1, digest);
  return ReadFirst<KernelRow>(*select, [](const Statement& row) {
    RowReader read(row);
    KernelRow kernel;
    kernel.digest = read.Text();
    kernel.source_digest = read.Text();
    kernel.json = read.Text();
    return kernel;
  });
}

absl::Status InsertCandidate(Connection& db, const CandidateRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO candidates (" FETTLE_CANDIDATE_COLUMNS
                ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.job_id)
      .Int(row.ordinal)
      .Text(row.digest)
      .Text(row.kernel_digest)
      .Text(row.values_json)
      .Text(row.parent)
      .Text(row.proposer)
      .Text(row.technique)
      .Text(row.rationale)
      .Text(row.stage)
      .Text(row.state)
      .Int(row.judged_order)
      .Text(row.verdict)
      .Text(row.verdict_json)
      .Real(row.ratio)
      .Int(row.created_ns)
      .Int(row.judged_ns);
  return insert->Run();
}

absl::Status UpdateCandidate(Connection& db, const CandidateRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE candidates SET (state, judged_order, verdict, verdict_json, ratio, "
                "judged_ns) = (?, ?, ?, ?, ?, ?) WHERE job_id = ? AND ordinal = ?"));
  RowBinder(*update)
      .Text(row.state)
      .Int(row.judged_order)
      .Text(row.verdict)
      .Text(row.verdict_json)
      .Real(row.ratio)
      .Int(row.judged_ns)
      .Text(row.job_id)
      .Int(row.ordinal);
  return update->Run();
}

absl::StatusOr<std::optional<CandidateRow>> FindCandidate(Connection& db, std::string_view job_id,
                                                          std::int64_t ordinal) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached(FETTLE_CANDIDATE_SELECT "WHERE job_id = ? AND ordinal = ?"));
  RowBinder(*select).Text(job_id).Int(ordinal);
  return ReadFirst<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::optional<CandidateRow>> FindCandidateByDigest(Connection& db,
                                                                  std::string_view job_id,
                                                                  std::string_view digest) {
  // Digests are lower-case hex, so that all with a prefix lie between it and it followed by 'g'.
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT
                "WHERE job_id = ?1 AND digest >= ?2 AND digest < ?2 || 'g' LIMIT 2"));
  RowBinder(*select).Text(job_id).Text(digest);
  FETTLE_ASSIGN_OR_RETURN(std::vector<CandidateRow> rows,
                          ReadAll<CandidateRow>(*select, ReadCandidate));
  if (rows.empty()) return std::optional<CandidateRow>();
  if (rows.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("digest: {} begins several candidates; give more digits", digest));
  }
  return std::optional<CandidateRow>(std::move(rows.front()));
}

absl::StatusOr<std::vector<CandidateRow>> ListCandidates(Connection& db, std::string_view job_id,
                                                         std::string_view verdict,
                                                         std::int64_t after_ordinal, int limit) {
  if (verdict.empty()) {
    FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                            db.Cached(FETTLE_CANDIDATE_SELECT
                                      "WHERE job_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ?"));
    RowBinder(*select).Text(job_id).Int(after_ordinal).Int(limit);
    return ReadAll<CandidateRow>(*select, ReadCandidate);
  }
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT
                "WHERE job_id = ? AND verdict = ? AND ordinal > ? ORDER BY ordinal LIMIT ?"));
  RowBinder(*select).Text(job_id).Text(verdict).Int(after_ordinal).Int(limit);
  return ReadAll<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::vector<CandidateRow>> RecentCandidates(Connection& db, std::string_view job_id,
                                                           std::string_view verdict,
                                                           std::int64_t before_ordinal, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT
                "WHERE job_id = ?1 AND (?2 = '' OR verdict = ?2) AND (?3 = 0 OR ordinal < ?3) "
                "ORDER BY ordinal DESC LIMIT ?4"));
  RowBinder(*select).Text(job_id).Text(verdict).Int(before_ordinal).Int(limit);
  return ReadAll<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::vector<CandidateRow>> BestCandidates(Connection& db, std::string_view job_id,
                                                         std::string_view verdict,
                                                         std::int64_t skip, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT
                "WHERE job_id = ?1 AND state = 'judged' AND (?2 = '' OR verdict = ?2) "
                "ORDER BY ratio DESC, ordinal LIMIT ?4 OFFSET ?3"));
  RowBinder(*select).Text(job_id).Text(verdict).Int(skip).Int(limit);
  return ReadAll<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::vector<CandidateRow>> OpenCandidates(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT "WHERE job_id = ? AND state <> 'judged' ORDER BY ordinal"));
  select->Bind(1, job_id);
  return ReadAll<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::vector<CandidateRow>> JudgedCandidates(Connection& db, std::string_view job_id,
                                                           std::string_view stage,
                                                           std::int64_t after_order, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_CANDIDATE_SELECT
                "WHERE job_id = ? AND stage = ? AND judged_order > ? ORDER BY judged_order "
                "LIMIT ?"));
  RowBinder(*select).Text(job_id).Text(stage).Int(after_order).Int(limit);
  return ReadAll<CandidateRow>(*select, ReadCandidate);
}

absl::StatusOr<std::int64_t> CountCandidates(Connection& db, std::string_view job_id,
                                             std::string_view stage) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT count(*) FROM candidates WHERE job_id = ? AND stage = ?"));
  RowBinder(*select).Text(job_id).Text(stage);
  FETTLE_RETURN_IF_ERROR(select->Step().status());
  return select->Int64(0);
}

}  // namespace fettle
