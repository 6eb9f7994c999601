// SPDX-License-Identifier: Apache-2.0
#include "store/variant_store.h"

#include <fmt/format.h>

#include "store/compress.h"
#include "store/row_io.h"
#include "store/select_columns.h"

namespace fettle {
namespace {

constexpr int kProvenanceColumn = 21;  // Follows the columns above where it is selected.

}  // namespace

VariantRow ReadVariantRow(const Statement& statement) {
  RowReader read(statement);
  VariantRow row;
  row.id = read.Text();
  row.job_id = read.Text();
  row.ordinal = read.Int();
  row.candidate_digest = read.Text();
  row.task_digest = read.Text();
  row.target = read.Text();
  row.device_model = read.Text();
  row.toolchain = read.Text();
  row.status = read.Text();
  row.status_reason = read.Text();
  row.values_json = read.Text();
  row.ratio = read.Real();
  row.ratio_low = read.Real();
  row.ratio_high = read.Real();
  row.ratio_declared = read.Real();
  row.ratio_tuned = read.Real();
  row.roofline_fraction = read.Real();
  row.is_tuned_baseline = read.Flag();
  row.parent_variant = read.Text();
  row.accepted_ns = read.Int();
  row.task_name = read.Text();
  return row;
}

absl::Status InsertVariant(Connection& db, const VariantRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement insert,
      db.Cached("INSERT INTO variants (" FETTLE_VARIANT_COLUMNS ", provenance_zst) VALUES "
                "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*insert)
      .Text(row.id)
      .Text(row.job_id)
      .Int(row.ordinal)
      .Text(row.candidate_digest)
      .Text(row.task_digest)
      .Text(row.target)
      .Text(row.device_model)
      .Text(row.toolchain)
      .Text(row.status)
      .Text(row.status_reason)
      .Text(row.values_json)
      .Real(row.ratio)
      .Real(row.ratio_low)
      .Real(row.ratio_high)
      .Real(row.ratio_declared)
      .Real(row.ratio_tuned)
      .Real(row.roofline_fraction)
      .Int(row.is_tuned_baseline ? 1 : 0)
      .Text(row.parent_variant)
      .Int(row.accepted_ns)
      .Blob(ZstdCompress(row.provenance_json));
  return insert->Run();
}

absl::Status SetVariantStatus(Connection& db, std::string_view id, std::string_view status,
                              std::string_view reason) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement update,
      db.Cached("UPDATE variants SET status = ?, status_reason = ? WHERE id = ?"));
  RowBinder(*update).Text(status).Text(reason).Text(id);
  FETTLE_RETURN_IF_ERROR(update->Run());
  if (db.changes() != 1) return absl::NotFoundError(fmt::format("no variant {}", id));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<VariantRow>> FindVariant(Connection& db, std::string_view id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_VARIANT_SELECT
                ", provenance_zst FROM variants WHERE id >= ?1 AND id < ?1 || '~' LIMIT 2"));
  select->Bind(1, id);
  absl::Status unpacked;
  FETTLE_ASSIGN_OR_RETURN(
      std::vector<VariantRow> rows, ReadAll<VariantRow>(*select, [&](const Statement& statement) {
        VariantRow row = ReadVariantRow(statement);
        absl::StatusOr<std::string> document =
            ZstdDecompress(statement.Text(kProvenanceColumn), kMaxDocumentBytes);
        if (document.ok()) {
          row.provenance_json = *std::move(document);
        } else {
          unpacked = document.status();
        }
        return row;
      }));
  FETTLE_RETURN_IF_ERROR(unpacked);
  if (rows.empty()) return std::optional<VariantRow>();
  if (rows.size() > 1 && rows.front().id != id) {
    return absl::InvalidArgumentError(
        fmt::format("variant_id: {} begins several variants; give more digits", id));
  }
  return std::optional<VariantRow>(std::move(rows.front()));
}

absl::StatusOr<std::vector<VariantRow>> ListVariants(Connection& db, const VariantFilter& filter,
                                                     std::int64_t before_ns,
                                                     std::string_view before_id, int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_VARIANT_SELECT
                " FROM variants WHERE (?1 = '' OR task_digest IN "
                "(SELECT digest FROM tasks WHERE name = ?1)) AND (?2 = '' OR target = ?2) AND "
                "(?3 = '' OR job_id = ?3) AND (?4 = '' OR status = ?4) AND "
                "(?5 = 0 OR (accepted_ns, id) < (?5, ?6)) "
                "ORDER BY accepted_ns DESC, id DESC LIMIT ?7"));
  RowBinder(*select)
      .Text(filter.task_name)
      .Text(filter.target)
      .Text(filter.job_id)
      .Text(filter.status)
      .Int(before_ns)
      .Text(before_id)
      .Int(limit);
  return ReadAll<VariantRow>(*select, ReadVariantRow);
}

absl::StatusOr<std::optional<VariantRow>> FindTunedBaseline(Connection& db,
                                                            std::string_view task_digest,
                                                            std::string_view target,
                                                            std::string_view device_model,
                                                            std::string_view toolchain) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_VARIANT_SELECT
                " FROM variants WHERE task_digest = ? AND target = ? AND device_model = ? AND "
                "toolchain = ? AND is_tuned_baseline = 1 AND status = 'accepted' "
                "ORDER BY ratio_declared DESC LIMIT 1"));
  RowBinder(*select).Text(task_digest).Text(target).Text(device_model).Text(toolchain);
  return ReadFirst<VariantRow>(*select, ReadVariantRow);
}

}  // namespace fettle
