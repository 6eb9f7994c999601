// SPDX-License-Identifier: Apache-2.0
#include "tests/device/device_contract.h"

#include <cstdlib>
#include <cstring>

#include <gmock/gmock.h>

namespace fettle {
namespace {

template <class T>
KernelArgument Bytes(T value) {
  KernelArgument bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

constexpr std::chrono::seconds kLimit{20};

}  // namespace

void DeviceContract::SetUp() {
  auto made = GetParam().make();
  const char* require = std::getenv("FETTLE_REQUIRE_GPU");
  const bool required = GetParam().gpu && require != nullptr && std::string(require) == "1";
  if (absl::IsUnavailable(made.status()) && !required) {
    GTEST_SKIP() << std::string(made.status().message());
  }
  ASSERT_TRUE(made.ok()) << made.status();
  device_ = *std::move(made);
  auto module = GetParam().module(*device_);
  ASSERT_TRUE(module.ok()) << module.status();
  names_ = *std::move(module);
  const std::vector<std::string> symbols = {names_.add, names_.fill};
  auto loaded = device_->Load(names_.code_object, symbols);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  module_ = *std::move(loaded);
}

std::unique_ptr<DeviceBuffer> DeviceContract::Buffer(const std::vector<float>& values) {
  auto buffer = device_->Allocate(static_cast<std::int64_t>(values.size() * 4));
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  std::vector<std::uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  EXPECT_TRUE(device_->CopyIn(**buffer, 0, bytes).ok());
  return *std::move(buffer);
}

std::vector<float> DeviceContract::Values(const DeviceBuffer& buffer) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(buffer.size_bytes()));
  EXPECT_TRUE(device_->Synchronize(kLimit).ok());
  EXPECT_TRUE(device_->CopyOut(buffer, 0, bytes).ok());
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::Status DeviceContract::Add(DeviceBuffer& y, DeviceBuffer& x, int n, LaunchConfig config) {
  const std::vector<KernelArgument> arguments = {Bytes(y.address()), Bytes(x.address()), Bytes(n)};
  return device_->Launch(*module_, names_.add, config, arguments);
}

TEST_P(DeviceContract, DescribesItself) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.id.empty());
  EXPECT_FALSE(info.model.empty());
  EXPECT_FALSE(info.target.name.empty());
  EXPECT_GT(info.target.max_block, 0);
  EXPECT_GT(info.target.lds, 0);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GE(device_->State().clock_mhz, 0);
}

TEST_P(DeviceContract, KeepsBytes) {
  auto buffer = Buffer({1, 2, 3, 4});
  EXPECT_EQ(buffer->address() % 256, 0u);
  EXPECT_EQ(buffer->size_bytes(), 16);
  ASSERT_TRUE(device_->Fill(*buffer, 4, 4, 0).ok());
  EXPECT_EQ(Values(*buffer), (std::vector<float>{1, 0, 3, 4}));
  auto other = Buffer({9, 9, 9, 9});
  ASSERT_TRUE(device_->CopyDevice(*other, 8, *buffer, 0, 8).ok());
  EXPECT_EQ(Values(*other), (std::vector<float>{9, 9, 1, 0}));
}

TEST_P(DeviceContract, RefusesRangesOutsideABuffer) {
  auto buffer = Buffer({1, 2});
  const std::vector<std::uint8_t> bytes(8);
  EXPECT_EQ(device_->CopyIn(*buffer, 4, bytes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Fill(*buffer, -1, 4, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Fill(*buffer, 0, INT64_MAX, 0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceContract, AllocatesNothingAndRefusesTooMuch) {
  EXPECT_TRUE(device_->Allocate(0).ok());
  EXPECT_EQ(device_->Allocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->Allocate(std::int64_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(DeviceContract, RunsAKernelOverSeveralBlocks) {
  if (!GetParam().computes) GTEST_SKIP() << "this device runs nothing";
  std::vector<float> x(1000), y(1000), want(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = 1;
    want[i] = i < 900 ? static_cast<float>(i) + 1 : 1;
  }
  auto dx = Buffer(x), dy = Buffer(y);
  ASSERT_TRUE(Add(*dy, *dx, 900, {.grid = {8, 1, 1}, .block = {128, 1, 1}}).ok());
  EXPECT_EQ(Values(*dy), want);
}

TEST_P(DeviceContract, RefusesLaunchesBeyondItsLimits) {
  auto x = Buffer({1}), y = Buffer({1});
  const Target& target = device_->info().target;
  const LaunchConfig bad[] = {
      {.grid = {0, 1, 1}},
      {.grid = {1, -1, 1}},
      {.block = {target.max_block + 1, 1, 1}},
      {.block = {1, 0, 1}},
      {.shared_bytes = target.lds + 1},
      {.shared_bytes = -1},
  };
  for (const LaunchConfig& config : bad) {
    EXPECT_EQ(Add(*y, *x, 1, config).code(), absl::StatusCode::kInvalidArgument);
  }
  // Refused launches leave the device usable.
  EXPECT_TRUE(Add(*y, *x, 1, {}).ok());
  EXPECT_TRUE(device_->Synchronize(kLimit).ok());
}

TEST_P(DeviceContract, KnowsItsFunctions) {
  auto function = module_->Function(names_.add);
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_GT(function->max_threads, 0);
  EXPECT_EQ(module_->Function("no_such_kernel").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(DeviceContract, RefusesBytesThatAreNoModule) {
  const std::vector<std::string> symbols = {"add"};
  const auto loaded = device_->Load("", symbols);
  EXPECT_FALSE(loaded.ok());
}

TEST_P(DeviceContract, MeasuresWhatItDoes) {
  auto from = device_->Record();
  ASSERT_TRUE(from.ok());
  ASSERT_TRUE(device_->Spin(std::chrono::milliseconds(5)).ok());
  auto to = device_->Record();
  ASSERT_TRUE(to.ok());
  ASSERT_TRUE(device_->Synchronize(kLimit).ok());
  const auto ns = device_->ElapsedNs(**from, **to);
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_GE(*ns, 4e6);
}

TEST_P(DeviceContract, ReplaysWhatItCaptured) {
  auto x = Buffer({1, 2}), y = Buffer({10, 10});
  const absl::Status begun = device_->BeginCapture();
  if (absl::IsUnimplemented(begun)) GTEST_SKIP() << begun;
  ASSERT_TRUE(begun.ok()) << begun;
  ASSERT_TRUE(Add(*y, *x, 2, {.block = {2, 1, 1}}).ok());
  auto graph = device_->EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  if (*graph == nullptr) GTEST_SKIP() << "this device has no graphs";
  EXPECT_EQ(Values(*y), (std::vector<float>{10, 10}));
  ASSERT_TRUE(device_->Replay(**graph).ok());
  ASSERT_TRUE(device_->Replay(**graph).ok());
  if (GetParam().computes) {
    EXPECT_EQ(Values(*y), (std::vector<float>{12, 14}));
  }
}

TEST_P(DeviceContract, HasNoFindingsOfACorrectKernel) {
  auto x = Buffer({1}), y = Buffer({1});
  ASSERT_TRUE(Add(*y, *x, 1, {}).ok());
  EXPECT_TRUE(device_->TakeFindings().empty());
  EXPECT_TRUE(device_->ResetPersistingCache().ok());
}

}  // namespace fettle
