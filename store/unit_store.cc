// SPDX-License-Identifier: Apache-2.0
#include "store/candidate_store.h"
#include "store/compress.h"
#include "store/row_io.h"

namespace fettle {
namespace {

#define FETTLE_UNIT_COLUMNS                                                     \
  "id, attempt, job_id, ordinal, kind, state, worker_id, seed, held_out_seed, " \
  "incumbent_ordinal, reason, created_ns, leased_ns, ended_ns, device_cap_ms, device_ms"
#define FETTLE_EVALUATION_COLUMNS                                                         \
  "unit_id, attempt, job_id, ordinal, kind, verdict, verification_passed, compile_ns, "   \
  "device_ns, wall_ns, worker_id, host, device_model, driver, compiler, fettle_version, " \
  "stored_ns, result_zst"
#define FETTLE_MEASUREMENT_COLUMNS                                                 \
  "against, case_label, weight, a_median_ns, b_median_ns, ratio, ratio_low, "      \
  "ratio_high, aa_spread, bytes_per_s, flops_per_s, floor_ns, roofline_fraction, " \
  "blocks, discarded_blocks"

UnitRow ReadUnit(const Statement& statement) {
  RowReader read(statement);
  UnitRow unit;
  unit.id = read.Text();
  unit.attempt = static_cast<int>(read.Int());
  unit.job_id = read.Text();
  unit.ordinal = read.Int();
  unit.kind = read.Text();
  unit.state = read.Text();
  unit.worker_id = read.Text();
  unit.seed = read.Seed();
  unit.held_out_seed = read.Seed();
  unit.incumbent_ordinal = read.Int();
  unit.reason = read.Text();
  unit.created_ns = read.Int();
  unit.leased_ns = read.Int();
  unit.ended_ns = read.Int();
  unit.device_cap_ms = read.Int();
  unit.device_ms = read.Int();
  return unit;
}

// Unpacks on the way; the first fault ends up in `status`.
EvaluationRow ReadEvaluation(const Statement& statement, absl::Status* status) {
  RowReader read(statement);
  EvaluationRow row;
  row.unit_id = read.Text();
  row.attempt = static_cast<int>(read.Int());
  row.job_id = read.Text();
  row.ordinal = read.Int();
  row.kind = read.Text();
  row.verdict = read.Text();
  if (const std::string passed = read.Text(); !passed.empty()) {
    row.verification_passed = passed == "1";
  }
  row.compile_ns = read.Int();
  row.device_ns = read.Int();
  row.wall_ns = read.Int();
  row.worker_id = read.Text();
  row.host = read.Text();
  row.device_model = read.Text();
  row.driver = read.Text();
  row.compiler = read.Text();
  row.fettle_version = read.Text();
  row.stored_ns = read.Int();
  absl::StatusOr<std::string> result = ZstdDecompress(read.Text(), kMaxDocumentBytes);
  if (result.ok()) {
    row.result_json = *std::move(result);
  } else if (status->ok()) {
    *status = result.status();
  }
  return row;
}

absl::Status InsertMeasurement(Connection& db, const std::string& unit_id,
                               const MeasurementRow& row) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                          db.Cached("INSERT INTO measurements (unit_id, " FETTLE_MEASUREMENT_COLUMNS
                                    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(unit_id)
      .Text(row.against)
      .Text(row.case_label)
      .Real(row.weight)
      .Real(row.a_median_ns)
      .Real(row.b_median_ns)
      .Real(row.ratio)
      .Real(row.ratio_low)
      .Real(row.ratio_high)
      .Real(row.aa_spread)
      .Real(row.bytes_per_s)
      .Real(row.flops_per_s)
      .Real(row.floor_ns)
      .Real(row.roofline_fraction)
      .Int(row.blocks)
      .Int(row.discarded_blocks);
  return insert->Run();
}

absl::Status InsertBuild(Connection& db, const std::string& unit_id, std::int64_t position,
                         const BuildRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO builds (unit_id, position, build_key, code_object, compiler, "
                "cache_hit, elapsed_ns, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(unit_id)
      .Int(position)
      .Text(row.build_key)
      .Text(row.code_object)
      .Text(row.compiler)
      .Int(row.cache_hit ? 1 : 0)
      .Int(row.elapsed_ns)
      .Text(row.status);
  return insert->Run();
}

}  // namespace

absl::Status InsertUnit(Connection& db, const UnitRow& unit) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                          db.Cached("INSERT INTO units (" FETTLE_UNIT_COLUMNS
                                    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(unit.id)
      .Int(unit.attempt)
      .Text(unit.job_id)
      .Int(unit.ordinal)
      .Text(unit.kind)
      .Text(unit.state)
      .Text(unit.worker_id)
      .Int(unit.seed)
      .Int(unit.held_out_seed)
      .Int(unit.incumbent_ordinal)
      .Text(unit.reason)
      .Int(unit.created_ns)
      .Int(unit.leased_ns)
      .Int(unit.ended_ns)
      .Int(unit.device_cap_ms)
      .Int(unit.device_ms);
  return insert->Run();
}

absl::Status UpdateUnit(Connection& db, const UnitRow& unit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE units SET (state, worker_id, reason, leased_ns, ended_ns, device_ms) = "
                "(?, ?, ?, ?, ?, ?) WHERE id = ? AND attempt = ?"));
  RowBinder(*update)
      .Text(unit.state)
      .Text(unit.worker_id)
      .Text(unit.reason)
      .Int(unit.leased_ns)
      .Int(unit.ended_ns)
      .Int(unit.device_ms)
      .Text(unit.id)
      .Int(unit.attempt);
  return update->Run();
}

absl::StatusOr<std::vector<UnitRow>> UnitAttempts(Connection& db, std::string_view id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_UNIT_COLUMNS " FROM units WHERE id = ? ORDER BY attempt"));
  select->Bind(1, id);
  return ReadAll<UnitRow>(*select, ReadUnit);
}

absl::StatusOr<std::vector<UnitRow>> OpenUnits(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_UNIT_COLUMNS
                " FROM units WHERE job_id = ? AND state IN ('pending', 'leased') ORDER BY ordinal, "
                "attempt"));
  select->Bind(1, job_id);
  return ReadAll<UnitRow>(*select, ReadUnit);
}

absl::Status CancelOpenUnits(Connection& db, std::string_view job_id, std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE units SET state = 'cancelled', ended_ns = ? WHERE job_id = ? AND state IN "
                "('pending', 'leased')"));
  RowBinder(*update).Int(now_ns).Text(job_id);
  return update->Run();
}

absl::Status InsertEvaluation(Connection& db, const EvaluationRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO evaluations (" FETTLE_EVALUATION_COLUMNS
                ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.unit_id)
      .Int(row.attempt)
      .Text(row.job_id)
      .Int(row.ordinal)
      .Text(row.kind)
      .Text(row.verdict)
      .FlagOrNull(row.verification_passed)
      .Int(row.compile_ns)
      .Int(row.device_ns)
      .Int(row.wall_ns)
      .Text(row.worker_id)
      .Text(row.host)
      .Text(row.device_model)
      .Text(row.driver)
      .Text(row.compiler)
      .Text(row.fettle_version)
      .Int(row.stored_ns)
      .Blob(ZstdCompress(row.result_json));
  FETTLE_RETURN_IF_ERROR(insert->Run());
  for (const MeasurementRow& measurement : row.measurements) {
    FETTLE_RETURN_IF_ERROR(InsertMeasurement(db, row.unit_id, measurement));
  }
  for (std::size_t i = 0; i < row.builds.size(); ++i) {
    FETTLE_RETURN_IF_ERROR(
        InsertBuild(db, row.unit_id, static_cast<std::int64_t>(i), row.builds[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceSums> SumDeviceTime(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(
          "SELECT (SELECT coalesce(sum((device_ns + 500000) / 1000000), 0) FROM evaluations WHERE "
          "job_id = ?1) + (SELECT coalesce(sum(device_ms), 0) FROM units WHERE job_id = ?1) + "
          "(SELECT coalesce(sum(device_ms), 0) FROM tries WHERE job_id = ?1) + "
          "(SELECT coalesce(sum(device_ms), 0) FROM agent_calls WHERE job_id = ?1), "
          "max((SELECT coalesce(max((device_ns + 500000) / 1000000), 0) FROM evaluations WHERE "
          "job_id = ?1 AND kind IN ('evaluate', 'confirm')), (SELECT coalesce(max(device_ms), 0) "
          "FROM tries WHERE job_id = ?1 AND verdict <> 'OPEN'), (SELECT coalesce(max(device_ms), "
          "0) "
          "FROM agent_calls WHERE job_id = ?1 AND state = 'answered'))"));
  RowBinder(*select).Text(job_id);
  FETTLE_ASSIGN_OR_RETURN(const auto sums, ReadFirst<DeviceSums>(*select, [](const Statement& s) {
                            return DeviceSums{.spent_ms = s.Int64(0), .longest_ms = s.Int64(1)};
                          }));
  return sums.value_or(DeviceSums());
}

absl::StatusOr<std::optional<EvaluationRow>> FindEvaluation(Connection& db,
                                                            std::string_view unit_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_EVALUATION_COLUMNS " FROM evaluations WHERE unit_id = ?"));
  select->Bind(1, unit_id);
  absl::Status unpacked;
  auto row = ReadFirst<EvaluationRow>(
      *select, [&](const Statement& s) { return ReadEvaluation(s, &unpacked); });
  FETTLE_RETURN_IF_ERROR(unpacked);
  return row;
}

absl::StatusOr<std::vector<EvaluationRow>> ListEvaluations(Connection& db, std::string_view job_id,
                                                           std::int64_t ordinal) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_EVALUATION_COLUMNS
                " FROM evaluations WHERE job_id = ? AND ordinal = ? ORDER BY stored_ns"));
  RowBinder(*select).Text(job_id).Int(ordinal);
  absl::Status unpacked;
  auto rows = ReadAll<EvaluationRow>(
      *select, [&](const Statement& s) { return ReadEvaluation(s, &unpacked); });
  FETTLE_RETURN_IF_ERROR(unpacked);
  return rows;
}

absl::StatusOr<std::vector<MeasurementRow>> ListMeasurements(Connection& db,
                                                             std::string_view unit_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT " FETTLE_MEASUREMENT_COLUMNS
                " FROM measurements WHERE unit_id = ? ORDER BY against, case_label"));
  select->Bind(1, unit_id);
  return ReadAll<MeasurementRow>(*select, [](const Statement& statement) {
    RowReader read(statement);
    MeasurementRow row;
    row.against = read.Text();
    row.case_label = read.Text();
    for (double* value : {&row.weight, &row.a_median_ns, &row.b_median_ns, &row.ratio,
                          &row.ratio_low, &row.ratio_high, &row.aa_spread, &row.bytes_per_s,
                          &row.flops_per_s, &row.floor_ns, &row.roofline_fraction}) {
      *value = read.Real();
    }
    row.blocks = read.Int();
    row.discarded_blocks = read.Int();
    return row;
  });
}

}  // namespace fettle
