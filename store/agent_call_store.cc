// SPDX-License-Identifier: Apache-2.0
#include "store/agent_call_store.h"

#include "core/status_macros.h"
#include "store/compress.h"
#include "store/row_io.h"

namespace fettle {
namespace {

#define FETTLE_CALL_COLUMNS                                                               \
  "job_id, sequence, kind, model, request_digest, state, error, tokens, usd, device_ms, " \
  "created_ns, ended_ns"

AgentCallRow ReadCall(const Statement& statement) {
  RowReader read(statement);
  AgentCallRow row;
  row.job_id = read.Text();
  row.sequence = read.Int();
  row.kind = read.Text();
  row.model = read.Text();
  row.request_digest = read.Text();
  row.state = read.Text();
  row.error = read.Text();
  row.tokens = read.Int();
  row.usd = read.Real();
  row.device_ms = read.Int();
  row.created_ns = read.Int();
  row.ended_ns = read.Int();
  return row;
}

// Compressed; nothing stays nothing.
std::string Packed(const std::string& text) { return text.empty() ? "" : ZstdCompress(text); }
absl::StatusOr<std::string> Unpacked(const std::string& bytes) {
  if (bytes.empty()) return std::string();
  return ZstdDecompress(bytes, kMaxDocumentBytes);
}

}  // namespace

absl::Status InsertAgentCall(Connection& db, AgentCallRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement last,
      db.Cached("SELECT coalesce(max(sequence), 0) + 1 FROM agent_calls WHERE job_id = ?"));
  last->Bind(1, std::string_view(row.job_id));
  FETTLE_ASSIGN_OR_RETURN(const bool found, last->Step());
  row.sequence = found ? last->Int64(0) : 1;
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                          db.Cached("INSERT INTO agent_calls (" FETTLE_CALL_COLUMNS
                                    ", request_zst, reply_zst) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
                                    "?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.job_id)
      .Int(row.sequence)
      .Text(row.kind)
      .Text(row.model)
      .Text(row.request_digest)
      .Text(row.state)
      .Text(row.error)
      .Int(row.tokens)
      .Real(row.usd)
      .Int(row.device_ms)
      .Int(row.created_ns)
      .Int(row.ended_ns)
      .Blob(Packed(row.request))
      .Blob(Packed(row.reply));
  return insert->Run();
}

absl::Status UpdateAgentCall(Connection& db, const AgentCallRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE agent_calls SET (state, reply_zst, error, tokens, usd, device_ms, "
                "ended_ns) = (?1, ?2, ?3, ?4, ?5, iif(?1 = 'answered', ?6, device_ms), ?7) WHERE "
                "job_id = ?8 AND sequence = ?9"));
  RowBinder(*update)
      .Text(row.state)
      .Blob(Packed(row.reply))
      .Text(row.error)
      .Int(row.tokens)
      .Real(row.usd)
      .Int(row.device_ms)
      .Int(row.ended_ns)
      .Text(row.job_id)
      .Int(row.sequence);
  return update->Run();
}

absl::StatusOr<std::vector<AgentCallRow>> ListAgentCalls(Connection& db, std::string_view job_id,
                                                         std::int64_t after, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_CALL_COLUMNS
                " FROM agent_calls WHERE job_id = ? AND sequence > ? ORDER BY sequence LIMIT ?"));
  RowBinder(*select).Text(job_id).Int(after).Int(limit);
  return ReadAll<AgentCallRow>(*select, ReadCall);
}

absl::StatusOr<AgentCallRow> ReadAgentCall(Connection& db, std::string_view job_id,
                                           std::int64_t sequence) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_CALL_COLUMNS
                ", request_zst, reply_zst FROM agent_calls WHERE job_id = ? AND sequence = ?"));
  RowBinder(*select).Text(job_id).Int(sequence);
  FETTLE_ASSIGN_OR_RETURN(const bool found, select->Step());
  if (!found) return absl::NotFoundError("no such call");
  AgentCallRow row = ReadCall(*select);
  FETTLE_ASSIGN_OR_RETURN(row.request, Unpacked(select->Text(12)));
  FETTLE_ASSIGN_OR_RETURN(row.reply, Unpacked(select->Text(13)));
  return row;
}

absl::Status SettleDeviceTime(Connection& db, std::string_view job_id, std::int64_t sequence,
                              std::int64_t device_ms) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE agent_calls SET device_ms = ? WHERE job_id = ? AND sequence = ?"));
  RowBinder(*update).Int(device_ms).Text(job_id).Int(sequence);
  return update->Run();
}

absl::Status LoseAgentCalls(Connection& db, std::string_view job_id, std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE agent_calls SET state = 'lost', ended_ns = ?, error = 'in flight when the "
                "server ended' WHERE job_id = ? AND state = 'sent'"));
  RowBinder(*update).Int(now_ns).Text(job_id);
  return update->Run();
}

absl::StatusOr<AgentCharges> SumAgentCalls(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT coalesce(sum(tokens), 0), coalesce(sum(usd), 0.0) FROM agent_calls WHERE "
                "job_id = ?"));
  select->Bind(1, job_id);
  FETTLE_ASSIGN_OR_RETURN(const bool found, select->Step());
  AgentCharges charges;
  if (found) charges = {select->Int64(0), select->Double(1)};
  return charges;
}

absl::Status PutTranscript(Connection& db, std::string_view job_id, std::string_view digest,
                           std::string_view blob) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO transcripts (job_id, candidate_digest, blob) VALUES (?, ?, ?) ON "
                "CONFLICT (job_id, candidate_digest) DO NOTHING"));
  RowBinder(*insert).Text(job_id).Text(digest).Text(blob);
  return insert->Run();
}

absl::StatusOr<std::string> FindTranscript(Connection& db, std::string_view job_id,
                                           std::string_view digest) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT blob FROM transcripts WHERE job_id = ? AND candidate_digest = ?"));
  RowBinder(*select).Text(job_id).Text(digest);
  FETTLE_ASSIGN_OR_RETURN(const bool found, select->Step());
  return found ? select->Text(0) : std::string();
}

}  // namespace fettle
