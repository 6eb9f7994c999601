// SPDX-License-Identifier: Apache-2.0
#include "store/retention.h"

#include <gtest/gtest.h>

#include "store/variant_store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

constexpr char kResult[] =
    R"({"measurement":{"cases":[{"ratio":1.5,"block_log_ratios":[0.4],"blocks":[{"a_ns":[1,2,3],"b_ns":[1,1,1]}]}]}})";

// A job with one candidate that lost and one that became a variant, each with a stored result.
std::unique_ptr<Store> FilledStore(const std::string& folder, const char* state) {
  auto store = Store::Open({.data_dir = folder});
  EXPECT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(InsertFakeJob(**store, "job").ok());
  EXPECT_TRUE((*store)
                  ->Write([&](Connection& db) -> absl::Status {
                    JobRow job = FakeJob("job");
                    job.state = state;
                    FETTLE_RETURN_IF_ERROR(UpdateJob(db, job));
                    for (const std::int64_t ordinal : {1, 2}) {
                      FETTLE_RETURN_IF_ERROR(InsertCandidate(db, FakeCandidate("job", ordinal)));
                      EvaluationRow row;
                      row.unit_id = fmt::format("unit{}", ordinal);
                      row.job_id = "job";
                      row.ordinal = ordinal;
                      row.kind = "evaluate";
                      row.stored_ns = 1'000;
                      row.result_json = kResult;
                      FETTLE_RETURN_IF_ERROR(InsertEvaluation(db, row));
                    }
                    VariantRow variant;
                    variant.id = "v2";
                    variant.job_id = "job";
                    variant.ordinal = 2;
                    variant.task_digest = FakeDigest('a');
                    variant.target = "cpu";
                    variant.values_json = "{}";
                    variant.provenance_json = "{}";
                    return InsertVariant(db, variant);
                  })
                  .ok());
  return *std::move(store);
}

std::string ResultOf(Store& store, const std::string& unit) {
  std::string text;
  EXPECT_TRUE(store
                  .Read([&](Connection& db) -> absl::Status {
                    auto row = FindEvaluation(db, unit);
                    if (!row.ok()) return row.status();
                    if (row->has_value()) text = (*row)->result_json;
                    return absl::OkStatus();
                  })
                  .ok());
  return text;
}

TEST(Retention, DropsSamplesOfLosersOnceAndKeepsTheirFigures) {
  const TemporaryFolder folder;
  const auto store = FilledStore(folder.path(), job_state::kSucceeded);
  const auto dry = ThinSamples(*store, {.dry_run = true}, 2'000);
  ASSERT_TRUE(dry.ok()) << dry.status();
  EXPECT_EQ(dry->thinned, 1);
  EXPECT_NE(ResultOf(*store, "unit1").find("a_ns"), std::string::npos);
  ASSERT_TRUE(ThinSamples(*store, {}, 2'000).ok());
  EXPECT_EQ(ResultOf(*store, "unit1").find("a_ns"), std::string::npos);
  EXPECT_NE(ResultOf(*store, "unit1").find("block_log_ratios"), std::string::npos);
  EXPECT_NE(ResultOf(*store, "unit2").find("a_ns"), std::string::npos);  // It became a variant.
  EXPECT_EQ(ThinSamples(*store, {}, 2'000)->thinned, 0);
}

TEST(Retention, LeavesYoungResultsAndOpenJobsAlone) {
  const TemporaryFolder young_folder, open_folder;
  const auto young = FilledStore(young_folder.path(), job_state::kSucceeded);
  EXPECT_EQ(ThinSamples(*young, {.min_age = std::chrono::hours(1)}, 2'000)->thinned, 0);
  const auto open = FilledStore(open_folder.path(), job_state::kRunning);
  EXPECT_EQ(ThinSamples(*open, {}, 2'000)->thinned, 0);
}

}  // namespace
}  // namespace fettle
