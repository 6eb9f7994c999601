// SPDX-License-Identifier: Apache-2.0
#include "profiler/roofline.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "device/null_device.h"
#include "profiler/ceilings.h"

namespace fettle {
namespace {

const Ceilings kCeilings{.bytes_per_s = 1e12, .cached_bytes_per_s = 4e12, .flops_per_s = 1e13};

TEST(Roofline, TakesTheSlowerOfMemoryAndArithmetic) {
  EXPECT_DOUBLE_EQ(FloorNs(1e6, 0, kCeilings, /*cold=*/true), 1000);
  EXPECT_DOUBLE_EQ(FloorNs(1e6, 1e9, kCeilings, /*cold=*/true), 100'000);
  EXPECT_DOUBLE_EQ(FloorNs(1e6, 0, kCeilings, /*cold=*/false), 250);
  EXPECT_DOUBLE_EQ(FloorNs(1e6, 1e9, Ceilings{}, /*cold=*/true), 0);
}

TEST(Roofline, FillsRatesAndFraction) {
  BoundCase bound_case;
  bound_case.work_bytes = 1e6;
  CaseMeasurement measurement;
  measurement.b_median_ns = 2000;
  ApplyRoofline(bound_case, kCeilings, /*cold=*/true, measurement);
  EXPECT_DOUBLE_EQ(measurement.bytes_per_s, 5e11);
  EXPECT_DOUBLE_EQ(measurement.roofline_fraction, 0.5);
}

TEST(Roofline, GivesNoFloorForEstimatedWork) {
  BoundCase bound_case;
  bound_case.work_bytes = 1e6;
  bound_case.work_is_estimate = true;
  CaseMeasurement measurement;
  measurement.b_median_ns = 2000;
  ApplyRoofline(bound_case, kCeilings, /*cold=*/true, measurement);
  EXPECT_DOUBLE_EQ(measurement.bytes_per_s, 5e11);
  EXPECT_DOUBLE_EQ(measurement.roofline_fraction, 0);
}

class StoredCeilingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "fettle-ceilings-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    device.id = "cuda:0";
    device.driver = "1";
  }
  void TearDown() override {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }
  absl::StatusOr<Ceilings> Get() {
    return StoredCeilings(folder, device, [this]() -> absl::StatusOr<Ceilings> {
      ++measured;
      return kCeilings;
    });
  }
  std::filesystem::path folder;
  DeviceInfo device;
  int measured = 0;
};

TEST_F(StoredCeilingsTest, MeasuresOncePerDriver) {
  ASSERT_TRUE(Get().ok());
  const auto again = Get();
  ASSERT_TRUE(again.ok());
  EXPECT_DOUBLE_EQ(again->cached_bytes_per_s, 4e12);
  EXPECT_EQ(measured, 1);
  device.driver = "2";
  ASSERT_TRUE(Get().ok());
  EXPECT_EQ(measured, 2);
}

TEST_F(StoredCeilingsTest, MeasuresAnewWhenTheFileIsDamaged) {
  ASSERT_TRUE(Get().ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ofstream(entry.path()) << "{\"bytes_per_s\": 1";
  }
  ASSERT_TRUE(Get().ok());
  EXPECT_EQ(measured, 2);
}

}  // namespace
}  // namespace fettle
