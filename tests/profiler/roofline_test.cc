// SPDX-License-Identifier: Apache-2.0
#include "profiler/roofline.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "device/gpu_kernels.h"
#include "device/null_device.h"
#include "profiler/ceilings.h"

namespace fettle {
namespace {

const Ceilings kCeilings{
    .bytes_per_s = 1e12, .cached_bytes_per_s = 4e12, .flops_per_s = 1e13, .flops8_per_s = 2e13};

TEST(Roofline, TakesTheSlowerOfMemoryAndArithmetic) {
  EXPECT_DOUBLE_EQ(FloorOf(1e6, 0, kCeilings, 1e13, /*cold=*/true).ns(), 1000);
  EXPECT_DOUBLE_EQ(FloorOf(1e6, 1e9, kCeilings, 1e13, /*cold=*/true).ns(), 100'000);
  EXPECT_DOUBLE_EQ(FloorOf(1e6, 0, kCeilings, 1e13, /*cold=*/false).ns(), 250);
  EXPECT_DOUBLE_EQ(FloorOf(1e6, 1e9, kCeilings, 0, /*cold=*/true).ns(), 1000);
  EXPECT_DOUBLE_EQ(FloorOf(1e6, 1e9, Ceilings{}, 0, /*cold=*/true).ns(), 0);
}

BoundCase CaseOf(std::initializer_list<DType> dtypes) {
  BoundCase bound_case;
  for (const DType dtype : dtypes) bound_case.tensors.emplace_back().dtype = dtype;
  return bound_case;
}

TEST(Roofline, ArithmeticCountsAtTheFastestRateThatTheTaskAllows) {
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kF16, DType::kF32}), kCeilings), 1e13);
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kF32, DType::kBool}), kCeilings), 1e13);
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kF8E4M3FN, DType::kF32}), kCeilings), 2e13);
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kI8, DType::kI32}), kCeilings), 2e13);
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kI64, DType::kI32}), kCeilings), 0);
  Ceilings without = kCeilings;
  without.flops8_per_s = 0;
  EXPECT_DOUBLE_EQ(CeilingFlops(CaseOf({DType::kF8E4M3FN}), without), 0);
}

TEST(Roofline, OnlyWhatIsClearlyBelowTheFloorIsImpossible) {
  BoundCase memory = CaseOf({DType::kF32}), compute = memory;
  memory.work_bytes = 1e6;  // 1000 ns.
  EXPECT_FALSE(BeatsFloor(memory, kCeilings, /*cold=*/true, 990));
  EXPECT_TRUE(BeatsFloor(memory, kCeilings, /*cold=*/true, 900));
  compute.work_flops = 1e7;  // 1000 ns; the clock depends on the data.
  EXPECT_FALSE(BeatsFloor(compute, kCeilings, /*cold=*/true, 900));
  EXPECT_TRUE(BeatsFloor(compute, kCeilings, /*cold=*/true, 700));
  compute.work_is_estimate = true;
  EXPECT_FALSE(BeatsFloor(compute, kCeilings, /*cold=*/true, 700));
}

TEST(MatrixProbe, IsThereForTargetsWhoseFullRateItReaches) {
  for (const char* name : {"sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"}) {
    const auto target = FindTarget(name);
    ASSERT_TRUE(target.ok()) << name;
    const auto probe = MatrixProbeFor(*target, 16);
    ASSERT_TRUE(probe.ok()) << name << ": " << probe.status();
    EXPECT_NE(probe->image.find(probe->symbol), std::string::npos) << name;
    EXPECT_GT(probe->flops_per_block_repeat, 0) << name;
  }
  EXPECT_TRUE(MatrixProbeFor(*FindTarget("gfx950"), 8).ok());
  EXPECT_TRUE(absl::IsNotFound(MatrixProbeFor(*FindTarget("gfx90a"), 8).status()));
  EXPECT_TRUE(absl::IsNotFound(MatrixProbeFor(*FindTarget("sm_100a"), 16).status()));
  EXPECT_TRUE(absl::IsNotFound(MatrixProbeFor(*FindTarget("cpu"), 16).status()));
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

TEST(Roofline, ArithmeticAloneGivesNoFractionAboveOne) {
  BoundCase bound_case = CaseOf({DType::kF16});
  bound_case.work_flops = 1e7;  // 1000 ns.
  CaseMeasurement measurement;
  measurement.b_median_ns = 900;
  ApplyRoofline(bound_case, kCeilings, /*cold=*/true, measurement);
  EXPECT_DOUBLE_EQ(measurement.roofline_fraction, 1);
  bound_case.work_bytes = 1e6;  // Memory may: the judge then refuses it.
  ApplyRoofline(bound_case, kCeilings, /*cold=*/true, measurement);
  EXPECT_GT(measurement.roofline_fraction, 1.05);
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

TEST_F(StoredCeilingsTest, OnlyGoUp) {
  ASSERT_TRUE(Get().ok());
  Ceilings now = kCeilings;
  now.bytes_per_s *= 2;
  now.cached_bytes_per_s /= 2;
  const Ceilings highest = Highest(kCeilings, now);
  EXPECT_DOUBLE_EQ(highest.bytes_per_s, 2 * kCeilings.bytes_per_s);
  EXPECT_DOUBLE_EQ(highest.cached_bytes_per_s, kCeilings.cached_bytes_per_s);
  StoreCeilings(folder, device, highest);
  const auto again = Get();
  ASSERT_TRUE(again.ok());
  EXPECT_DOUBLE_EQ(again->bytes_per_s, 2 * kCeilings.bytes_per_s);
  EXPECT_EQ(measured, 1);
}

}  // namespace
}  // namespace fettle
