// SPDX-License-Identifier: Apache-2.0
#include "store/retention.h"

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "core/text.h"
#include "store/compress.h"

namespace fettle {
namespace {

using nlohmann::json;

// Takes the samples out of one measurement; false: there were none.
bool Thin(json& measurement) {
  bool changed = false;
  if (!measurement.is_object() || !measurement.value("cases", json()).is_array()) return false;
  for (json& entry : measurement["cases"]) {
    if (!entry.is_object() || !entry.contains("blocks") || entry["blocks"].empty()) continue;
    entry["blocks"] = json::array();
    changed = true;
  }
  return changed;
}

}  // namespace

namespace {

// Of ended jobs, finished before ?1, the conversations of candidates that did not become variants.
absl::Status DropTranscripts(Store& store, std::int64_t oldest, bool dry_run,
                             RetentionReport& report) {
  const absl::Status counted = store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(
        Statement rows,
        db.Prepare("SELECT COUNT(*) FROM transcripts t JOIN jobs j ON j.id = t.job_id "
                   "WHERE j.state NOT IN ('queued', 'running') AND j.finished_ns <= ?1 "
                   "AND NOT EXISTS (SELECT 1 FROM variants v WHERE v.job_id = t.job_id "
                   "AND v.candidate_digest = t.candidate_digest)"));
    rows.Bind(1, oldest);
    FETTLE_ASSIGN_OR_RETURN(const bool any, rows.Step());
    if (any) report.transcripts = rows.Int64(0);
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(counted);
  if (dry_run || report.transcripts == 0) return absl::OkStatus();
  return store.Write([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(
        Statement drop,
        db.Prepare("DELETE FROM transcripts WHERE EXISTS (SELECT 1 FROM jobs j "
                   "WHERE j.id = transcripts.job_id AND j.state NOT IN ('queued', 'running') "
                   "AND j.finished_ns <= ?1) AND NOT EXISTS (SELECT 1 FROM variants v "
                   "WHERE v.job_id = transcripts.job_id "
                   "AND v.candidate_digest = transcripts.candidate_digest)"));
    drop.Bind(1, oldest);
    return drop.Run();
  });
}

}  // namespace

absl::StatusOr<RetentionReport> ThinSamples(Store& store, const RetentionOptions& options,
                                            std::int64_t now_ns) {
  RetentionReport report;
  const std::int64_t oldest =
      now_ns - std::chrono::duration_cast<std::chrono::nanoseconds>(options.min_age).count();
  std::vector<std::string> units;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(
        Statement rows,
        db.Prepare(
            "SELECT e.unit_id FROM evaluations e JOIN jobs j ON j.id = e.job_id "
            "WHERE j.state NOT IN ('queued', 'running') AND e.stored_ns <= ?1 AND NOT EXISTS "
            "(SELECT 1 FROM variants v WHERE v.job_id = e.job_id AND v.ordinal = e.ordinal)"));
    rows.Bind(1, oldest);
    while (true) {
      FETTLE_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return absl::OkStatus();
      units.push_back(rows.Text(0));
    }
  }));
  for (const std::string& unit : units) {
    std::string packed;
    FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(Statement row,
                              db.Prepare("SELECT result_zst FROM evaluations WHERE unit_id = ?1"));
      row.Bind(1, unit);
      FETTLE_ASSIGN_OR_RETURN(const bool found, row.Step());
      if (found) packed = row.Text(0);
      return absl::OkStatus();
    }));
    FETTLE_ASSIGN_OR_RETURN(const std::string text, ZstdDecompress(packed, kMaxDocumentBytes));
    json result = json::parse(text, nullptr, /*allow_exceptions=*/false);
    bool changed = false;
    for (const char* part : {"screening", "measurement", "against_incumbent"}) {
      if (result.is_object() && result.contains(part)) changed = Thin(result[part]) || changed;
    }
    if (!changed) {
      ++report.kept;
      continue;
    }
    const std::string thin = ZstdCompress(result.dump(-1, ' ', false, kReplaceInvalid));
    ++report.thinned;
    report.freed_bytes +=
        static_cast<std::int64_t>(packed.size()) - static_cast<std::int64_t>(thin.size());
    if (options.dry_run) continue;
    FETTLE_RETURN_IF_ERROR(store.Write([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(
          Statement update,
          db.Prepare("UPDATE evaluations SET result_zst = ?2 WHERE unit_id = ?1"));
      update.Bind(1, unit);
      update.BindBlob(2, thin);
      return update.Run();
    }));
  }
  FETTLE_RETURN_IF_ERROR(DropTranscripts(store, oldest, options.dry_run, report));
  return report;
}

}  // namespace fettle
