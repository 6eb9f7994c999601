// SPDX-License-Identifier: Apache-2.0
#include "store/device_store.h"

#include "store/row_io.h"

namespace fettle {

absl::Status PutDeviceReport(Connection& db, const DeviceReportRow& row) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement put,
      db.Cached("INSERT OR REPLACE INTO device_reports (host, device_id, model, target, driver, "
                "uuid, partition, worker_id, health, bytes_per_s, cached_bytes_per_s, "
                "flops_per_s, flops8_per_s, aa_json, reported_ns) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  RowBinder(*put)
      .Text(row.host)
      .Text(row.device_id)
      .Text(row.model)
      .Text(row.target)
      .Text(row.driver)
      .Text(row.uuid)
      .Text(row.partition)
      .Text(row.worker_id)
      .Text(row.health)
      .Real(row.bytes_per_s)
      .Real(row.cached_bytes_per_s)
      .Real(row.flops_per_s)
      .Real(row.flops8_per_s)
      .Text(row.aa_json)
      .Int(row.reported_ns);
  return put->Run();
}

absl::StatusOr<std::vector<DeviceReportRow>> ListDeviceReports(Connection& db,
                                                               std::string_view target) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT host, device_id, model, target, driver, uuid, partition, worker_id, "
                "health, bytes_per_s, cached_bytes_per_s, flops_per_s, flops8_per_s, aa_json, "
                "reported_ns FROM device_reports WHERE ?1 = '' OR target = ?1 "
                "ORDER BY model, host, device_id"));
  RowBinder(*select).Text(target);
  return ReadAll<DeviceReportRow>(*select, [](const Statement& statement) {
    RowReader read(statement);
    DeviceReportRow row;
    for (std::string* text : {&row.host, &row.device_id, &row.model, &row.target, &row.driver,
                              &row.uuid, &row.partition, &row.worker_id, &row.health}) {
      *text = read.Text();
    }
    for (double* rate :
         {&row.bytes_per_s, &row.cached_bytes_per_s, &row.flops_per_s, &row.flops8_per_s}) {
      *rate = read.Real();
    }
    row.aa_json = read.Text();
    row.reported_ns = read.Int();
    return row;
  });
}

}  // namespace fettle
