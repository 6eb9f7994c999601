// SPDX-License-Identifier: Apache-2.0
#include "worker/device_reports.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "profiler/ceilings.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using nlohmann::json;

class DeviceReportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_.id = "cuda:0";
    device_.model = "Model X";
    device_.driver = "1.2";
    std::filesystem::create_directories(folder_.str() + "/aa");
  }
  // With a time of its own, since a test writes faster than clocks of files tick.
  void Write(const std::filesystem::path& file, const std::string& text, int age_s) {
    std::ofstream(file) << text;
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_s));
  }
  static json Aa(int false_wins) {
    return {{"device", "Model X"},   {"driver", "1.2"},          {"candidates", 20},
            {"confirmations", 3},    {"false_wins", false_wins}, {"ratio_low", 0.99},
            {"ratio_high", 1.01},    {"spread_median", 0.001},   {"spread_p95", 0.004},
            {"ratios", {1.0, 1.01}}, {"spreads", {0.001}}};
  }

  TemporaryFolder folder_;
  DeviceInfo device_;
};

TEST_F(DeviceReportsTest, HoldsWhatWasMeasuredAndNothingElse) {
  DeviceReports reports(folder_.str());
  EXPECT_EQ(reports.Of(device_), json::object()) << "nothing was measured";
  const auto stored = StoredCeilings(folder_.str(), device_, []() -> absl::StatusOr<Ceilings> {
    return Ceilings{.bytes_per_s = 4e12, .flops_per_s = 9e14};
  });
  ASSERT_TRUE(stored.ok()) << stored.status();
  Write(AaFile(folder_.str(), device_), Aa(0).dump(), 10);
  const json report = reports.Of(device_);
  EXPECT_EQ(report["ceilings"]["bytes_per_s"], 4e12);
  EXPECT_EQ(report["aa"]["candidates"], 20);
  EXPECT_GT(report["aa"]["measured_ns"], 1'500'000'000'000'000'000);
  EXPECT_FALSE(report["aa"].contains("ratios")) << "a heartbeat carries no samples";
}

TEST_F(DeviceReportsTest, FollowsFilesThatChange) {
  DeviceReports reports(folder_.str());
  const std::filesystem::path file = AaFile(folder_.str(), device_);
  Write(file, Aa(0).dump(), 30);
  EXPECT_EQ(reports.Of(device_)["aa"]["false_wins"], 0);
  Write(file, Aa(2).dump(), 20);
  EXPECT_EQ(reports.Of(device_)["aa"]["false_wins"], 2);
  Write(file, "{damaged", 10);
  EXPECT_FALSE(reports.Of(device_).contains("aa"));
  Write(file, R"({"candidates": "many"})", 5);
  EXPECT_FALSE(reports.Of(device_).contains("aa"));
  std::filesystem::remove(file);
  EXPECT_FALSE(reports.Of(device_).contains("aa"));
}

TEST_F(DeviceReportsTest, BelongsToOneDriver) {
  DeviceReports reports(folder_.str());
  Write(AaFile(folder_.str(), device_), Aa(0).dump(), 10);
  EXPECT_TRUE(reports.Of(device_).contains("aa"));
  DeviceInfo other = device_;
  other.id = "cuda:1";
  other.driver = "1.3";
  EXPECT_FALSE(reports.Of(other).contains("aa"));
}

}  // namespace
}  // namespace fettle
