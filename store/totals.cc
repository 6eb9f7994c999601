// SPDX-License-Identifier: Apache-2.0
#include "store/totals.h"

#include "store/row_io.h"

namespace fettle {
namespace {

absl::StatusOr<std::map<std::string, std::int64_t>> Counts(Connection& db, const char* sql) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select, db.Cached(sql));
  std::map<std::string, std::int64_t> counts;
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, select->Step());
    if (!more) return counts;
    counts[select->Text(0)] = select->Int64(1);
  }
}

}  // namespace

absl::StatusOr<StoreTotals> ReadStoreTotals(Connection& db) {
  StoreTotals totals;
  FETTLE_ASSIGN_OR_RETURN(totals.jobs,
                          Counts(db, "SELECT state, count(*) FROM jobs GROUP BY state"));
  FETTLE_ASSIGN_OR_RETURN(totals.variants,
                          Counts(db, "SELECT status, count(*) FROM variants GROUP BY status"));
  // Of an index, whose entries are small.
  FETTLE_ASSIGN_OR_RETURN(
      totals.verdicts,
      Counts(db,
             "SELECT verdict, count(*) FROM candidates INDEXED BY candidates_by_verdict "
             "GROUP BY verdict"));
  for (const auto& [verdict, count] : totals.verdicts) totals.candidates += count;
  totals.verdicts.erase("");  // Not judged yet.
  {
    FETTLE_ASSIGN_OR_RETURN(
        BorrowedStatement spent,
        db.Cached(
            "SELECT coalesce(sum(spent_tokens), 0), coalesce(sum(spent_usd), 0.0) FROM jobs"));
    FETTLE_RETURN_IF_ERROR(spent->Step().status());
    totals.tokens = spent->Int64(0);
    totals.usd = spent->Double(1);
  }
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement calls, db.Cached("SELECT count(*) FROM agent_calls"));
  FETTLE_RETURN_IF_ERROR(calls->Step().status());
  totals.agent_calls = calls->Int64(0);
  return totals;
}

absl::Status AddEvaluations(Connection& db, EvaluationTotals& totals) {
  EvaluationTotals next = totals;
  {
    FETTLE_ASSIGN_OR_RETURN(BorrowedStatement newest,
                            db.Cached("SELECT coalesce(max(rowid), 0) FROM evaluations"));
    FETTLE_RETURN_IF_ERROR(newest->Step().status());
    next.last_row = newest->Int64(0);
  }
  if (next.last_row <= totals.last_row) return absl::OkStatus();
  {
    FETTLE_ASSIGN_OR_RETURN(
        BorrowedStatement select,
        db.Cached("SELECT kind, device_model, host, count(*), sum(device_ns) FROM evaluations "
                  "WHERE rowid > ?1 AND rowid <= ?2 GROUP BY 1, 2, 3"));
    RowBinder(*select).Int(totals.last_row).Int(next.last_row);
    while (true) {
      FETTLE_ASSIGN_OR_RETURN(const bool more, select->Step());
      if (!more) break;
      RowReader read(*select);
      std::string kind = read.Text();
      std::string model = read.Text();
      EvaluationTotals::Sum& sum = next.by_device[{std::move(kind), std::move(model), read.Text()}];
      sum.count += read.Int();
      sum.device_ns += read.Int();
    }
  }
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT b.cache_hit, count(*), sum(b.elapsed_ns) FROM evaluations AS e JOIN builds "
                "AS b ON b.unit_id = e.unit_id WHERE e.rowid > ?1 AND e.rowid <= ?2 GROUP BY 1"));
  RowBinder(*select).Int(totals.last_row).Int(next.last_row);
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, select->Step());
    if (!more) break;
    RowReader read(*select);
    EvaluationTotals::Compiles& sum = next.compiles[read.Flag()];
    sum.count += read.Int();
    sum.elapsed_ns += read.Int();
  }
  totals = std::move(next);
  return absl::OkStatus();
}

}  // namespace fettle
