// SPDX-License-Identifier: Apache-2.0
#include "store/device_store.h"

#include <gtest/gtest.h>

#include "store/totals.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

class DeviceStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open({.data_dir = folder_.str() + "/data"});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::vector<DeviceReportRow> Reports(const std::string& target) {
    std::vector<DeviceReportRow> rows;
    EXPECT_TRUE(store_
                    ->Read([&](Connection& db) -> absl::Status {
                      FETTLE_ASSIGN_OR_RETURN(rows, ListDeviceReports(db, target));
                      return absl::OkStatus();
                    })
                    .ok());
    return rows;
  }
  absl::Status Put(const DeviceReportRow& row) {
    return store_->Write([&](Connection& db) { return PutDeviceReport(db, row); });
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(DeviceStoreTest, KeepsTheLastReportOfEachDevice) {
  DeviceReportRow row;
  row.host = "h";
  row.device_id = "cuda:0";
  row.model = "Model X";
  row.target = "sm_90a";
  row.driver = "1";
  row.uuid = "u";
  row.partition = "p";
  row.worker_id = "w";
  row.health = "ok";
  row.bytes_per_s = 4e12;
  row.cached_bytes_per_s = 9e12;
  row.flops_per_s = 1e15;
  row.flops8_per_s = 2e15;
  row.aa_json = "{}";
  row.reported_ns = 5;
  ASSERT_TRUE(Put(row).ok());
  DeviceReportRow other = row;
  other.device_id = "cpu";
  other.target = "cpu";
  ASSERT_TRUE(Put(other).ok());
  row.health = "quarantined";
  row.reported_ns = 6;
  ASSERT_TRUE(Put(row).ok());
  EXPECT_EQ(Reports("sm_90a"), std::vector<DeviceReportRow>{row});
  EXPECT_EQ(Reports("").size(), 2U);
  EXPECT_TRUE(Reports("gfx950").empty());
  row.health = "odd";
  EXPECT_FALSE(Put(row).ok()) << "health is one of three words";
}

TEST_F(DeviceStoreTest, TotalsReadEachEvaluationOnce) {
  ASSERT_TRUE(InsertFakeJob(*store_, "j1").ok());
  EvaluationTotals totals;
  const auto add = [&] {
    return store_->Read([&](Connection& db) { return AddEvaluations(db, totals); });
  };
  const auto evaluate = [&](const std::string& unit, bool cache_hit) {
    EvaluationRow row;
    row.unit_id = unit;
    row.job_id = "j1";
    row.ordinal = 1;
    row.kind = "evaluate";
    row.device_model = "Model X";
    row.host = "h";
    row.device_ns = 7;
    row.result_json = "{}";
    BuildRow build;
    build.cache_hit = cache_hit;
    build.elapsed_ns = 11;
    build.status = "run";
    row.builds.push_back(build);
    return store_->Write([&](Connection& db) { return InsertEvaluation(db, row); });
  };
  ASSERT_TRUE(add().ok());
  EXPECT_TRUE(totals.by_device.empty());
  ASSERT_TRUE(evaluate("u1", false).ok());
  ASSERT_TRUE(evaluate("u2", true).ok());
  ASSERT_TRUE(add().ok());
  ASSERT_TRUE(add().ok());
  const auto& sum = totals.by_device.at({"evaluate", "Model X", "h"});
  EXPECT_EQ(sum.count, 2);
  EXPECT_EQ(sum.device_ns, 14);
  ASSERT_TRUE(evaluate("u3", true).ok());
  ASSERT_TRUE(add().ok());
  EXPECT_EQ(totals.by_device.at({"evaluate", "Model X", "h"}).count, 3);
  EXPECT_EQ(totals.compiles.at(true).count, 2);
  EXPECT_EQ(totals.compiles.at(false).elapsed_ns, 11);
}

}  // namespace
}  // namespace fettle
