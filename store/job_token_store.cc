// SPDX-License-Identifier: Apache-2.0
#include "store/job_token_store.h"

#include <array>

#include "core/status_macros.h"
#include "store/row_io.h"

namespace fettle {
namespace {

struct Statements {
  const char *insert, *drop, *list;
};

constexpr std::array<Statements, 2> kStatements = {{
    {"INSERT INTO propose_tokens (sha256, job_id, created_ns) VALUES (?, ?, ?)",
     "DELETE FROM propose_tokens WHERE job_id = ?", "SELECT sha256, job_id FROM propose_tokens"},
    {"INSERT INTO worker_tokens (sha256, job_id, created_ns) VALUES (?, ?, ?)",
     "DELETE FROM worker_tokens WHERE job_id = ?", "SELECT sha256, job_id FROM worker_tokens"},
}};

const Statements& Of(JobTokenKind kind) {
  return kStatements[kind == JobTokenKind::kPropose ? 0 : 1];
}

}  // namespace

absl::Status InsertJobToken(Connection& db, JobTokenKind kind, std::string_view sha256,
                            std::string_view job_id, std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert, db.Cached(Of(kind).insert));
  RowBinder(*insert).Text(sha256).Text(job_id).Int(now_ns);
  return insert->Run();
}

absl::Status DeleteJobTokens(Connection& db, JobTokenKind kind, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement drop, db.Cached(Of(kind).drop));
  RowBinder(*drop).Text(job_id);
  return drop->Run();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ListJobTokens(Connection& db,
                                                                               JobTokenKind kind) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select, db.Cached(Of(kind).list));
  return ReadAll<std::pair<std::string, std::string>>(
      *select, [](const Statement& row) { return std::make_pair(row.Text(0), row.Text(1)); });
}

}  // namespace fettle
