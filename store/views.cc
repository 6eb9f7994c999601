// SPDX-License-Identifier: Apache-2.0
#include "store/views.h"

#include <cmath>
#include <map>

#include "store/job_store.h"
#include "store/row_io.h"
#include "store/select_columns.h"

namespace fettle {
namespace {

// Filters and the sorted page of variants; ?1 to ?8 are bound by BindSearch.
#define FETTLE_TASK_NAME "(SELECT name FROM tasks WHERE digest = variants.task_digest)"
// Whether a word is in what is listed; names of tasks are looked through once, not for each row.
// LIKE compares without regard to case in place: lower() of the joined columns took four times as
// long, nearly all of a search.
#define FETTLE_ESCAPED " ESCAPE '\\' "
#define FETTLE_HAS_WORD(word)                                                              \
  "(" word                                                                                 \
  " = '' OR task_digest IN (SELECT digest FROM tasks WHERE name LIKE " word FETTLE_ESCAPED \
  ") OR id LIKE " word FETTLE_ESCAPED "OR target LIKE " word FETTLE_ESCAPED                \
  "OR device_model LIKE " word FETTLE_ESCAPED "OR values_json LIKE " word FETTLE_ESCAPED   \
  "OR job_id LIKE " word FETTLE_ESCAPED ") "
#define FETTLE_VARIANT_WHERE                                                    \
  "(?1 = '' OR task_digest IN (SELECT digest FROM tasks WHERE name = ?1)) AND " \
  "(?2 = '' OR target = ?2) AND (?3 = '' OR device_model = ?3) AND "            \
  "(?4 = '' OR job_id = ?4) AND (?5 = '' OR status = ?5) AND " FETTLE_HAS_WORD( \
      "?6") "AND " FETTLE_HAS_WORD("?7") "AND " FETTLE_HAS_WORD("?8")

// The page is chosen from an index alone, then its rows are read. `how` says from which.
#define FETTLE_SORTED(how, column, compare, direction)                                      \
  FETTLE_VARIANT_SELECT                                                                     \
  " FROM variants WHERE id IN (SELECT id FROM variants " how " WHERE " FETTLE_VARIANT_WHERE \
  "AND (?9 = '' OR (" column ", id) " compare " (?10, ?9)) ORDER BY " column " " direction  \
  ", id " direction " LIMIT ?11) ORDER BY " column " " direction ", id " direction

struct SortSql {
  VariantSort sort;
  bool is_text;
  const char* descending;
  const char* ascending;
};

#define FETTLE_SORT(sort, is_text, how, column)                          \
  {                                                                      \
    VariantSort::sort, is_text, FETTLE_SORTED(how, column, "<", "DESC"), \
        FETTLE_SORTED(how, column, ">", "ASC")                           \
  }

#define FETTLE_LISTED "INDEXED BY variants_listed"
#define FETTLE_BY_TIME "INDEXED BY variants_by_time"

constexpr SortSql kSorts[] = {
    FETTLE_SORT(kAccepted, false, FETTLE_LISTED, "accepted_ns"),
    FETTLE_SORT(kSpeedUp, false, FETTLE_LISTED, "ratio"),
    FETTLE_SORT(kDeclared, false, FETTLE_LISTED, "ratio_declared"),
    FETTLE_SORT(kRoofline, false, FETTLE_LISTED, "roofline_fraction"),
    FETTLE_SORT(kTask, true, FETTLE_LISTED, FETTLE_TASK_NAME),
    FETTLE_SORT(kTarget, true, FETTLE_LISTED, "target"),
};
// Where most rows fit, the first page is at the index's end. Where few do, this would read the row
// of every variant.
constexpr SortSql kByTime = FETTLE_SORT(kAccepted, false, FETTLE_BY_TIME, "accepted_ns");

const SortSql& SqlOf(const VariantSearch& search) {
  const bool narrowed = !search.words.empty() || !search.task_name.empty() ||
                        !search.target.empty() || !search.device_model.empty() ||
                        !search.job_id.empty();
  if (search.sort == VariantSort::kAccepted && !narrowed) return kByTime;
  for (const SortSql& one : kSorts) {
    if (one.sort == search.sort) return one;
  }
  return kByTime;
}

// A pattern of LIKE for texts that hold the word; empty: every text.
std::string Holding(const std::string& word) {
  if (word.empty()) return word;
  std::string pattern = "%";
  for (const char c : word) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + '%';
}

void BindSearch(RowBinder& bind, const VariantSearch& search) {
  bind.Text(search.task_name).Text(search.target).Text(search.device_model);
  bind.Text(search.job_id).Text(search.status);
  for (std::size_t i = 0; i < 3; ++i) {
    bind.Text(i < search.words.size() ? Holding(search.words[i]) : std::string());
  }
}

// Weighted mean of the logarithms of a candidate's intervals.
struct IntervalSum {
  std::string unit;
  double weight = 0, low = 0, high = 0;
};

}  // namespace

absl::StatusOr<std::vector<JobRow>> SearchJobs(Connection& db, const JobSearch& search,
                                               std::int64_t before_ns, std::string_view before_id,
                                               int limit) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(FETTLE_JOB_SELECT
                "WHERE (?1 = '' OR state = ?1) AND "
                "(?2 = '' OR task_digest IN (SELECT digest FROM tasks WHERE name = ?2)) AND "
                "(?3 = '' OR target = ?3) AND (?4 = 0 OR (created_ns, id) < (?4, ?5)) "
                "ORDER BY created_ns DESC, id DESC LIMIT ?6"));
  RowBinder(*select)
      .Text(search.state)
      .Text(search.task_name)
      .Text(search.target)
      .Int(before_ns)
      .Text(before_id)
      .Int(limit);
  return ReadAll<JobRow>(*select, ReadJobRow);
}

absl::StatusOr<std::vector<std::string>> OpenOrEndedJobs(Connection& db, std::int64_t since_ns,
                                                         int limit) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached("SELECT id FROM jobs WHERE state IN ('queued', 'running') OR "
                                    "finished_ns >= ? ORDER BY created_ns, id LIMIT ?"));
  RowBinder(*select).Int(since_ns).Int(limit);
  return ReadAll<std::string>(*select, [](const Statement& row) { return row.Text(0); });
}

SortCursor CursorOf(const VariantRow& row, VariantSort sort) {
  SortCursor cursor;
  cursor.id = row.id;
  switch (sort) {
    case VariantSort::kAccepted:
      cursor.time_ns = row.accepted_ns;
      break;
    case VariantSort::kSpeedUp:
      cursor.number = row.ratio;
      break;
    case VariantSort::kDeclared:
      cursor.number = row.ratio_declared;
      break;
    case VariantSort::kRoofline:
      cursor.number = row.roofline_fraction;
      break;
    case VariantSort::kTask:
      cursor.text = row.task_name;
      break;
    case VariantSort::kTarget:
      cursor.text = row.target;
      break;
  }
  return cursor;
}

absl::StatusOr<std::vector<VariantRow>> SearchVariants(Connection& db, const VariantSearch& search,
                                                       const SortCursor& after, int limit) {
  const SortSql& sql = SqlOf(search);
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached(search.ascending ? sql.ascending : sql.descending));
  RowBinder bind(*select);
  BindSearch(bind, search);
  bind.Text(after.id);
  if (sql.is_text) {
    bind.Text(after.text);
  } else if (search.sort == VariantSort::kAccepted) {
    bind.Int(after.time_ns);
  } else {
    bind.Real(after.number);
  }
  bind.Int(limit);
  return ReadAll<VariantRow>(*select, ReadVariantRow);
}

absl::StatusOr<std::int64_t> CountVariants(Connection& db, const VariantSearch& search) {
  FETTLE_ASSIGN_OR_RETURN(BorrowedStatement select,
                          db.Cached("SELECT count(*) FROM variants WHERE " FETTLE_VARIANT_WHERE));
  RowBinder bind(*select);
  BindSearch(bind, search);
  FETTLE_RETURN_IF_ERROR(select->Step().status());
  return select->Int64(0);
}

absl::StatusOr<std::vector<CatalogEntry>> ListCatalog(Connection& db) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT tasks.name, target, device_model, count(*) FROM variants INDEXED BY "
                "variants_listed JOIN tasks ON tasks.digest = task_digest GROUP BY 1, 2, 3 "
                "ORDER BY 1, 2, 3"));
  return ReadAll<CatalogEntry>(*select, [](const Statement& row) {
    RowReader read(row);
    CatalogEntry entry;
    entry.task_name = read.Text();
    entry.target = read.Text();
    entry.device_model = read.Text();
    entry.variants = read.Int();
    return entry;
  });
}

absl::StatusOr<std::vector<TimelinePoint>> Timeline(Connection& db, std::string_view job_id,
                                                    std::int64_t after_ordinal, int limit) {
  std::vector<TimelinePoint> points;
  {
    FETTLE_ASSIGN_OR_RETURN(
        BorrowedStatement select,
        db.Cached("SELECT c.ordinal, coalesce((SELECT p.ordinal FROM candidates AS p WHERE "
                  "p.job_id = c.job_id AND p.digest = c.parent), 0), c.digest, c.verdict, "
                  "CASE WHEN json_valid(c.verdict_json) THEN "
                  "coalesce(c.verdict_json ->> '$.reason_code', '') ELSE '' END, c.stage, "
                  "c.technique, c.ratio, c.created_ns, c.judged_ns FROM candidates AS c "
                  "WHERE c.job_id = ? AND c.ordinal > ? ORDER BY c.ordinal LIMIT ?"));
    RowBinder(*select).Text(job_id).Int(after_ordinal).Int(limit);
    FETTLE_ASSIGN_OR_RETURN(points, ReadAll<TimelinePoint>(*select, [](const Statement& row) {
                              RowReader read(row);
                              TimelinePoint point;
                              point.ordinal = read.Int();
                              point.parent_ordinal = read.Int();
                              point.digest = read.Text();
                              point.verdict = read.Text();
                              point.reason_code = read.Text();
                              point.stage = read.Text();
                              point.technique = read.Text();
                              point.ratio = read.Real();
                              point.created_ns = read.Int();
                              point.judged_ns = read.Int();
                              return point;
                            }));
  }
  if (points.empty()) return points;
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT e.ordinal, e.unit_id, m.weight, m.ratio_low, m.ratio_high "
                "FROM evaluations AS e JOIN measurements AS m ON m.unit_id = e.unit_id AND "
                "m.against = 'denominator' WHERE e.job_id = ? AND e.ordinal > ? AND "
                "e.ordinal <= ? ORDER BY e.ordinal, e.stored_ns"));
  RowBinder(*select).Text(job_id).Int(after_ordinal).Int(points.back().ordinal);
  std::map<std::int64_t, IntervalSum> sums;
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, select->Step());
    if (!more) break;
    RowReader read(*select);
    IntervalSum& sum = sums[read.Int()];
    if (const std::string unit = read.Text(); unit != sum.unit) {
      sum = IntervalSum{unit};  // The confirmation, where there was one, is the last.
    }
    const double weight = read.Real();
    const double low = read.Real();
    const double high = read.Real();
    if (!(weight > 0 && low > 0 && high > 0)) continue;
    sum.weight += weight;
    sum.low += weight * std::log(low);
    sum.high += weight * std::log(high);
  }
  for (TimelinePoint& point : points) {
    const auto found = sums.find(point.ordinal);
    if (found == sums.end() || found->second.weight <= 0) continue;
    point.ratio_low = std::exp(found->second.low / found->second.weight);
    point.ratio_high = std::exp(found->second.high / found->second.weight);
  }
  return points;
}

absl::StatusOr<std::vector<VariantCase>> ListVariantCases(Connection& db, const CaseSearch& search,
                                                          std::int64_t before_ns,
                                                          std::string_view before_id, int limit) {
  // CROSS JOIN keeps the order: from the page's variants to their cases, never through all cases.
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached("SELECT v.id, (SELECT name FROM tasks WHERE digest = v.task_digest), "
                "v.task_digest, v.target, v.device_model, v.status, v.ratio, v.accepted_ns, "
                "m.case_label, m.weight, m.a_median_ns, m.b_median_ns, m.ratio, m.ratio_low, "
                "m.ratio_high, m.aa_spread, m.bytes_per_s, m.flops_per_s, m.floor_ns, "
                "m.roofline_fraction, m.blocks, m.discarded_blocks FROM "
                "(SELECT id, job_id, ordinal, task_digest, target, device_model, status, ratio, "
                "accepted_ns FROM variants WHERE "
                "(?1 = '' OR task_digest IN (SELECT digest FROM tasks WHERE name = ?1)) AND "
                "(?2 = '' OR target = ?2) AND (?3 = '' OR status = ?3) AND "
                "(?4 = 0 OR (accepted_ns, id) < (?4, ?5)) "
                "ORDER BY accepted_ns DESC, id DESC LIMIT ?6) AS v "
                "CROSS JOIN evaluations AS e ON e.job_id = v.job_id AND e.ordinal = v.ordinal AND "
                "e.kind = 'confirm' CROSS JOIN measurements AS m ON m.unit_id = e.unit_id AND "
                "m.against = 'denominator' ORDER BY v.accepted_ns DESC, v.id DESC, m.case_label"));
  RowBinder(*select)
      .Text(search.task_name)
      .Text(search.target)
      .Text(search.status)
      .Int(before_ns)
      .Text(before_id)
      .Int(limit);
  return ReadAll<VariantCase>(*select, [](const Statement& row) {
    RowReader read(row);
    VariantCase one;
    one.variant_id = read.Text();
    one.task_name = read.Text();
    one.task_digest = read.Text();
    one.target = read.Text();
    one.device_model = read.Text();
    one.status = read.Text();
    one.variant_ratio = read.Real();
    one.accepted_ns = read.Int();
    MeasurementRow& m = one.measured;
    m.against = "denominator";
    m.case_label = read.Text();
    for (double* value :
         {&m.weight, &m.a_median_ns, &m.b_median_ns, &m.ratio, &m.ratio_low, &m.ratio_high,
          &m.aa_spread, &m.bytes_per_s, &m.flops_per_s, &m.floor_ns, &m.roofline_fraction}) {
      *value = read.Real();
    }
    m.blocks = read.Int();
    m.discarded_blocks = read.Int();
    return one;
  });
}

absl::StatusOr<std::vector<RecentCase>> RecentCases(Connection& db, int evaluations) {
  FETTLE_ASSIGN_OR_RETURN(
      BorrowedStatement select,
      db.Cached(
          "SELECT e.device_model, e.host, e.driver, e.compiler, e.job_id, "
          "(SELECT t.name FROM jobs AS j JOIN tasks AS t ON t.digest = j.task_digest WHERE "
          "j.id = e.job_id), m.case_label, e.stored_ns, e.ordinal, m.a_median_ns, "
          "m.aa_spread, m.bytes_per_s, m.roofline_fraction, m.blocks, m.discarded_blocks "
          "FROM (SELECT unit_id, device_model, host, driver, compiler, job_id, stored_ns, ordinal "
          "FROM evaluations ORDER BY rowid DESC LIMIT ?) AS e "
          "JOIN measurements AS m ON m.unit_id = e.unit_id AND m.against = 'denominator' "
          "ORDER BY e.stored_ns, e.ordinal"));
  RowBinder(*select).Int(evaluations);
  return ReadAll<RecentCase>(*select, [](const Statement& row) {
    RowReader read(row);
    RecentCase one;
    one.device_model = read.Text();
    one.host = read.Text();
    one.driver = read.Text();
    one.compiler = read.Text();
    one.job_id = read.Text();
    one.task_name = read.Text();
    one.case_label = read.Text();
    one.stored_ns = read.Int();
    one.ordinal = read.Int();
    one.a_median_ns = read.Real();
    one.aa_spread = read.Real();
    one.bytes_per_s = read.Real();
    one.roofline_fraction = read.Real();
    one.blocks = read.Int();
    one.discarded_blocks = read.Int();
    return one;
  });
}

}  // namespace fettle
