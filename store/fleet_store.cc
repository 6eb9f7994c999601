// SPDX-License-Identifier: Apache-2.0
#include "store/fleet_store.h"

#include "core/status_macros.h"
#include "store/row_io.h"

namespace fettle {

absl::Status PutAllocation(Connection& db, std::string_view job_id, std::string_view id,
                           std::int64_t devices, std::int64_t held_s, std::int64_t now_ns) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement put,
      db.Cached("INSERT INTO allocations (job_id, id, devices, held_s, seen_s, last_ns) "
                "VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT (job_id, id) DO UPDATE SET "
                "held_s = held_s + CASE WHEN ?4 >= seen_s THEN ?4 - seen_s ELSE ?4 END, "
                "seen_s = ?4, last_ns = ?5"));
  RowBinder(*put).Text(job_id).Text(id).Int(devices).Int(held_s).Int(now_ns);
  return put->Run();
}

absl::StatusOr<std::int64_t> SumAllocations(Connection& db, std::string_view job_id) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT coalesce(sum(devices * held_s), 0) FROM allocations WHERE job_id = ?1 OR "
                "?1 = ''"));
  RowBinder(*select).Text(job_id);
  std::int64_t sum = 0;
  FETTLE_ASSIGN_OR_RETURN(const auto rows, ReadAll<std::int64_t>(*select, [](const Statement& row) {
                            return row.Int64(0);
                          }));
  if (!rows.empty()) sum = rows.front();
  return sum;
}

absl::StatusOr<std::int64_t> SumAllocatedUse(Connection& db) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT coalesce(sum(spent_device_ms), 0) FROM jobs WHERE id IN "
                "(SELECT job_id FROM allocations WHERE devices > 0)"));
  FETTLE_RETURN_IF_ERROR(select->Step().status());
  return select->Int64(0);
}

}  // namespace fettle
