// SPDX-License-Identifier: Apache-2.0
// The contract of a GPU device, run on whatever GPU is here. FETTLE_REQUIRE_GPU=1 makes a missing
// device a failure.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

#include <gtest/gtest.h>

#include "device/gpu_registry.h"
#include "verifier/inputs.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename T>
KernelArgument Bytes(T value) {
  KernelArgument bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename T>
std::span<const std::uint8_t> View(const std::vector<T>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> Fetch(Device& device, const DeviceBuffer& buffer) {
  std::vector<T> values(static_cast<std::size_t>(buffer.size_bytes()) / sizeof(T));
  const absl::Status copied = device.CopyOut(
      buffer, 0, {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(T)});
  EXPECT_TRUE(copied.ok()) << copied;
  return values;
}

class GpuDeviceContract : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto device = OpenGpu(GetParam());
    if (absl::IsUnavailable(device.status()) && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
      GTEST_SKIP() << device.status();
    }
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    // HIP over CUDA (tests/fakes/hip_over_cuda) takes PTX as well.
    const std::string base = FETTLE_SOURCE_DIR "/tests/data/code_objects/device_kernels";
    const bool ptx =
        std::string(GetParam()).starts_with("cuda") || std::getenv("FETTLE_HIP_LIBRARY") != nullptr;
    image_ = ReadFile(ptx ? base + ".ptx" : base + "." + device_->info().target.name + ".co");
    ASSERT_FALSE(image_.empty());
  }

  std::unique_ptr<DeviceModule> Load() {
    const std::vector<std::string> symbols{"add", "reverse", "count", "endless"};
    auto module = device_->Load(image_, symbols);
    EXPECT_TRUE(module.ok()) << module.status();
    return module.ok() ? *std::move(module) : nullptr;
  }

  template <typename T>
  std::unique_ptr<DeviceBuffer> Upload(const std::vector<T>& values) {
    auto buffer = device_->Allocate(static_cast<std::int64_t>(values.size() * sizeof(T)));
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    const absl::Status copied = device_->CopyIn(**buffer, 0, View(values));
    EXPECT_TRUE(copied.ok()) << copied;
    return *std::move(buffer);
  }

  std::string image_;
  std::unique_ptr<Device> device_;
};

TEST_P(GpuDeviceContract, DescribesItself) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.id, GetParam());
  EXPECT_FALSE(info.model.empty());
  EXPECT_FALSE(info.driver.empty());
  EXPECT_EQ(info.uuid.size(), 36U);
  EXPECT_GT(info.memory_bytes, std::int64_t{1} << 30);
  EXPECT_GT(info.target.cus, 0);
  EXPECT_GE(info.target.max_block, 1024);
  EXPECT_GE(info.target.lds, info.target.lds_static);
  EXPECT_GT(info.target.cache, 1 << 20);
  std::printf("%s: %s, %s, %s, %s, lds %ld, cache %ld, partition \"%s\"\n", info.id.c_str(),
              info.model.c_str(), info.driver.c_str(), info.uuid.c_str(), info.target.name.c_str(),
              static_cast<long>(info.target.lds), static_cast<long>(info.target.cache),
              info.partition.c_str());
}

TEST_P(GpuDeviceContract, ReadsItsState) {
  const DeviceState state = device_->State();
  if (std::getenv("FETTLE_HIP_LIBRARY") != nullptr && std::string(GetParam()) == "hip:0") {
    GTEST_SKIP() << "no AMD board behind hip_over_cuda, so no sensors";
  }
  EXPECT_GT(state.clock_mhz, 0);
  EXPECT_GT(state.power_w, 0);
  EXPECT_GT(state.temperature_c, 0);
  std::printf("%.0f MHz, memory %.0f MHz, %.0f W, %.0f C, \"%s\"\n", state.clock_mhz,
              state.memory_clock_mhz, state.power_w, state.temperature_c,
              state.throttle_reason.c_str());
}

TEST_P(GpuDeviceContract, RunsAKernel) {
  const auto module = Load();
  ASSERT_NE(module, nullptr);
  constexpr int kCount = 1000;
  std::vector<float> a(kCount), b(kCount);
  std::iota(a.begin(), a.end(), 0.0F);
  std::iota(b.begin(), b.end(), 5.0F);
  const auto left = Upload(a), right = Upload(b), out = Upload(std::vector<float>(kCount, -1));
  const std::vector<KernelArgument> arguments{Bytes(left->address()), Bytes(right->address()),
                                              Bytes(out->address()), Bytes(int{kCount})};
  ASSERT_TRUE(
      device_->Launch(*module, "add", {.grid = {4, 1, 1}, .block = {256, 1, 1}}, arguments).ok());
  ASSERT_TRUE(device_->Synchronize(seconds(10)).ok());
  const auto sums = Fetch<float>(*device_, *out);
  for (int i = 0; i < kCount; ++i)
    ASSERT_EQ(sums[static_cast<std::size_t>(i)], 2.0F * static_cast<float>(i) + 5.0F);
}

TEST_P(GpuDeviceContract, FillsAndCopies) {
  const auto a = Upload(std::vector<std::uint8_t>(64, 7));
  const auto b = Upload(std::vector<std::uint8_t>(64, 0));
  ASSERT_TRUE(device_->Fill(*a, 8, 8, 0xAB).ok());
  ASSERT_TRUE(device_->CopyDevice(*b, 16, *a, 0, 32).ok());
  const auto bytes = Fetch<std::uint8_t>(*device_, *b);
  EXPECT_EQ(bytes[15], 0);
  EXPECT_EQ(bytes[16], 7);
  EXPECT_EQ(bytes[24], 0xAB);
  EXPECT_EQ(bytes[32], 7);
  EXPECT_EQ(bytes[48], 0);
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Fill(*a, 60, 8, 0)));
}

TEST_P(GpuDeviceContract, UsesAllSharedMemoryAfterOptingIn) {
  const auto module = Load();
  ASSERT_NE(module, nullptr);
  const std::int64_t most = device_->info().target.lds;
  const auto out = Upload(std::vector<int>{0});
  const auto launch = [&](std::int64_t bytes) {
    return device_->Launch(
        *module, "touch_shared", {.shared_bytes = bytes},
        std::vector<KernelArgument>{Bytes(out->address()), Bytes(static_cast<int>(bytes))});
  };
  for (const std::int64_t bytes : {std::int64_t{1024}, std::int64_t{48 * 1024}, most}) {
    ASSERT_TRUE(launch(bytes).ok()) << bytes;
    EXPECT_EQ(Fetch<int>(*device_, *out), std::vector<int>{42}) << bytes;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(launch(most + 1)));
}

TEST_P(GpuDeviceContract, DigestsWhatMemoryHolds) {
  std::vector<std::uint8_t> bytes(100'003);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 31 + i / 7);
  const auto first = Upload(bytes), second = Upload(bytes);
  const auto digest = [&](const DeviceBuffer& buffer, std::int64_t offset, std::int64_t size,
                          std::uint64_t key) {
    const std::array ranges{DeviceRange{&buffer, offset, size}};
    const auto found = device_->Digests(ranges, key, seconds(10));
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->front() : DeviceDigest{};
  };
  const DeviceDigest whole = digest(*first, 0, 100'003, 7);
  EXPECT_EQ(whole, digest(*second, 0, 100'003, 7));
  EXPECT_EQ(whole, digest(*first, 0, 100'003, 7));
  EXPECT_NE(whole, digest(*first, 0, 100'003, 8));
  EXPECT_NE(whole, digest(*first, 0, 100'002, 7));
  EXPECT_NE(whole[0], whole[1]);
  // The same bytes at another alignment; bytes outside do not count.
  for (const std::int64_t offset : {1, 3, 4, 8, 12}) {
    std::vector<std::uint8_t> moved(bytes.size() + static_cast<std::size_t>(offset) + 5, 0xEE);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + offset);
    EXPECT_EQ(whole, digest(*Upload(moved), offset, 100'003, 7)) << offset;
  }
  // One bit anywhere, two words exchanged, a zero more.
  for (const std::size_t at : {std::size_t{0}, std::size_t{50'001}, std::size_t{100'002}}) {
    std::vector<std::uint8_t> changed = bytes;
    changed[at] ^= 0x10;
    EXPECT_NE(whole, digest(*Upload(changed), 0, 100'003, 7)) << at;
  }
  std::vector<std::uint8_t> exchanged = bytes;
  std::swap_ranges(exchanged.begin(), exchanged.begin() + 8, exchanged.begin() + 8);
  EXPECT_NE(whole, digest(*Upload(exchanged), 0, 100'003, 7));
  std::vector<std::uint8_t> zeros(64, 0);
  EXPECT_NE(digest(*Upload(zeros), 0, 63, 7), digest(*Upload(zeros), 0, 64, 7));
  EXPECT_EQ(digest(*first, 5, 0, 7), digest(*second, 9, 0, 7));
  const std::array beyond{DeviceRange{first.get(), 1, 100'003}};
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Digests(beyond, 7, seconds(1)).status()));
  // Many at once, each its own.
  std::vector<DeviceRange> many;
  for (std::int64_t i = 0; i < 600; ++i) many.push_back({first.get(), i, 1000});
  const auto all = device_->Digests(many, 7, seconds(10));
  ASSERT_TRUE(all.ok()) << all.status();
  for (const std::int64_t i : {0, 255, 256, 599}) {
    EXPECT_EQ((*all)[static_cast<std::size_t>(i)], digest(*first, i, 1000, 7)) << i;
  }
}

// Bit by bit what this machine makes of the same fill.
TEST_P(GpuDeviceContract, DrawsTheInputsOfThisMachine) {
  constexpr std::int64_t kCount = 3'000'001;
  using Kind = DrawnFill::Kind;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                            DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    for (const Kind kind : {Kind::kConstant, Kind::kNormal, Kind::kUniform, Kind::kBelow}) {
      if (IsInteger(dtype) != (kind == Kind::kBelow)) continue;
      const DrawnFill fill{.kind = kind,
                           .dtype = dtype,
                           .a = kind == Kind::kConstant ? 1.5 : -0.25,
                           .b = 1e-3,
                           .low = -3,
                           .span = 100,
                           .seed = 99 + static_cast<std::uint64_t>(dtype)};
      auto buffer = device_->Allocate(StorageBytes(dtype, kCount));
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const absl::Status drawn = device_->Draw(**buffer, kCount, fill);
      ASSERT_TRUE(drawn.ok()) << drawn;
      std::vector<std::uint8_t> ours(static_cast<std::size_t>(StorageBytes(dtype, kCount)));
      WriteDrawn(fill, 0, kCount, ours.data());
      EXPECT_TRUE(Fetch<std::uint8_t>(*device_, **buffer) == ours)
          << DTypeName(dtype) << " " << static_cast<int>(kind);
    }
  }
  auto buffer = device_->Allocate(8);
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE(absl::IsUnimplemented(device_->Draw(**buffer, 8, {.dtype = DType::kF8E4M3FN})));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Draw(**buffer, 3, {.dtype = DType::kF32})));
}

TEST_P(GpuDeviceContract, FreedMemoryKeepsNoAnswers) {
  const std::vector<std::uint8_t> secret(1 << 20, 0x5C);
  std::uint64_t address = 0;
  {
    const auto buffer = Upload(secret);
    address = buffer->address();
  }
  auto again = device_->Allocate(1 << 20);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->address(), address);  // Kept for reuse.
  const std::vector<std::uint8_t> found = Fetch<std::uint8_t>(*device_, **again);
  EXPECT_EQ(std::count(found.begin(), found.end(), 0x5C), 0);
}

TEST_P(GpuDeviceContract, RefusesLaunchesBeyondLimits) {
  const auto module = Load();
  ASSERT_NE(module, nullptr);
  const std::vector<KernelArgument> none;
  const LaunchConfig bad[] = {
      {.grid = {0, 1, 1}},     {.block = {2048, 1, 1}},
      {.block = {64, 64, 1}},  {.block = {1, 1, 2000}},
      {.grid = {1, 70000, 1}}, {.shared_bytes = 300 * 1024},
      {.shared_bytes = -1},    {.grid = {6, 1, 1}, .cluster = {4, 1, 1}},
  };
  for (const LaunchConfig& config : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(device_->Launch(*module, "count", config, none)));
  }
  const std::vector<KernelArgument> one{Bytes(std::uint64_t{0})};
  // Another number of arguments than the function takes, where the object describes them. A
  // function without any is described like one that is not described at all.
  if (!(*module->Function("add")).parameter_bytes.empty()) {
    const absl::Status few = device_->Launch(*module, "add", LaunchConfig{}, one);
    EXPECT_TRUE(absl::IsInvalidArgument(few)) << few;
  }
  EXPECT_TRUE(absl::IsNotFound(device_->Launch(*module, "missing", LaunchConfig{}, none)));
  EXPECT_TRUE(device_->Launch(*module, "count", LaunchConfig{}, none).ok());
  EXPECT_TRUE(device_->Synchronize(seconds(10)).ok());
}

TEST_P(GpuDeviceContract, RefusesWhatIsNoCodeObject) {
  const std::vector<std::string> symbols{"add"};
  const auto nonsense = device_->Load("this is no code object", symbols);
  EXPECT_TRUE(absl::IsInvalidArgument(nonsense.status())) << nonsense.status();
  const std::vector<std::string> missing{"nothing_here"};
  EXPECT_TRUE(absl::IsNotFound(device_->Load(image_, missing).status()));
}

TEST_P(GpuDeviceContract, DescribesFunctionsAndGlobals) {
  const auto module = Load();
  ASSERT_NE(module, nullptr);
  const auto info = module->Function("add");
  ASSERT_TRUE(info.ok());
  EXPECT_GT(info->registers, 0);
  EXPECT_GE(info->max_threads, 256);
  if (!info->parameter_bytes.empty()) {
    EXPECT_EQ(info->parameter_bytes, (std::vector<std::int64_t>{8, 8, 8, 4}));
  }
}

TEST_P(GpuDeviceContract, BringsBackTheVariablesOfAModule) {
  const bool over_cuda =
      std::getenv("FETTLE_HIP_LIBRARY") != nullptr && std::string(GetParam()) == "hip:0";
  if (!over_cuda && device_->info().target.name != "sm_90a") {
    GTEST_SKIP() << "its code object is for sm_90a";
  }
  const std::string image =
      ReadFile(FETTLE_SOURCE_DIR "/tests/data/code_objects/state_kernels.sm_90a.cubin");
  auto module = device_->Load(image, std::vector<std::string>{"remember"});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto out = Upload(std::vector<int>(4, -1));
  const auto call = [&] {
    EXPECT_TRUE(
        device_
            ->Launch(**module, "remember", {}, std::vector<KernelArgument>{Bytes(out->address())})
            .ok());
    return Fetch<int>(*device_, *out);
  };
  EXPECT_EQ(call(), (std::vector<int>{7, 0, 0, 1}));
  // What it finds then is what it is brought back to.
  const auto bytes = (*module)->SaveState();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GE(*bytes, 4 + 8 + 20 + 1);
  EXPECT_EQ(call(), (std::vector<int>{71, 5, 2, 9}));
  EXPECT_EQ(call(), (std::vector<int>{135, 10, 4, 9}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE((*module)->RestoreState().ok());
    EXPECT_EQ(call(), (std::vector<int>{71, 5, 2, 9}));
  }
}

TEST_P(GpuDeviceContract, SpinsForTheTimeAskedAndMeasuresIt) {
  ASSERT_TRUE(device_->Spin(milliseconds(1)).ok());
  for (const auto wanted : {milliseconds(2), milliseconds(10)}) {
    auto begin = device_->Record();
    ASSERT_TRUE(device_->Spin(wanted).ok());
    auto end = device_->Record();
    ASSERT_TRUE(begin.ok() && end.ok());
    ASSERT_TRUE(device_->Synchronize(seconds(10)).ok());
    const auto ns = device_->ElapsedNs(**begin, **end);
    ASSERT_TRUE(ns.ok()) << ns.status();
    const double asked = std::chrono::duration<double, std::nano>(wanted).count();
    EXPECT_GT(*ns, asked * 0.99);
    EXPECT_LT(*ns, asked * 1.5);
    std::printf("spin %.0f ns measured %.0f ns\n", asked, *ns);
  }
}

TEST_P(GpuDeviceContract, ReplaysACapture) {
  const auto module = Load();
  ASSERT_NE(module, nullptr);
  const auto data = Upload(std::vector<int>{1, 2, 3, 4});
  ASSERT_TRUE(device_->BeginCapture().ok());
  const LaunchConfig config{.block = {4, 1, 1}, .shared_bytes = 16};
  ASSERT_TRUE(
      device_
          ->Launch(*module, "reverse", config, std::vector<KernelArgument>{Bytes(data->address())})
          .ok());
  auto graph = device_->EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  if (*graph == nullptr) GTEST_SKIP() << "graphs are unsupported here";
  EXPECT_EQ(Fetch<int>(*device_, *data), (std::vector<int>{1, 2, 3, 4}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->Replay(**graph).ok());
  EXPECT_EQ(Fetch<int>(*device_, *data), (std::vector<int>{4, 3, 2, 1}));
}

TEST_P(GpuDeviceContract, RunsOutOfMemoryAndGoesOn) {
  const auto huge = device_->Allocate(device_->info().memory_bytes * 2);
  EXPECT_TRUE(absl::IsResourceExhausted(huge.status())) << huge.status();
  EXPECT_EQ(Fetch<int>(*device_, *Upload(std::vector<int>{5})), std::vector<int>{5});
}

TEST_P(GpuDeviceContract, ResetsPersistingCache) {
  EXPECT_TRUE(device_->ResetPersistingCache().ok());
}

TEST_P(GpuDeviceContract, ReusesEventsAndFreesMemory) {
  for (int i = 0; i < 2000; ++i) {
    auto event = device_->Record();
    ASSERT_TRUE(event.ok());
    auto buffer = device_->Allocate(64 << 20);
    ASSERT_TRUE(buffer.ok()) << i << ": " << buffer.status();
  }
}

// What breaks the device runs in a child process: a context does not survive a fault.
class GpuDeviceFaults : public GpuDeviceContract {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    GpuDeviceContract::SetUp();
  }

  // Launches and waits; prints the status and ends the process with its code, or with 100 when the
  // device still works afterwards.
  [[noreturn]] void Break(const std::string& kernel, const std::vector<KernelArgument>& arguments) {
    const std::vector<std::string> symbols{kernel};
    auto module = device_->Load(image_, symbols);
    absl::Status status = module.status();
    if (status.ok()) status = device_->Launch(**module, kernel, LaunchConfig{}, arguments);
    if (status.ok()) status = device_->Synchronize(milliseconds(500));
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    const bool dead =
        device_->Allocate(16).status() == status && device_->Synchronize(seconds(1)) == status;
    // The driver's own end would wait for a kernel that still runs.
    std::_Exit(dead ? static_cast<int>(status.code()) : 100);
  }
};

constexpr int kAbortedExit = static_cast<int>(absl::StatusCode::kAborted);
constexpr int kDeadlineExit = static_cast<int>(absl::StatusCode::kDeadlineExceeded);

TEST_P(GpuDeviceFaults, EndsAnEndlessKernelByDeadline) {
  const auto flag = Upload(std::vector<int>{0});
  EXPECT_EXIT(Break("endless", {Bytes(flag->address())}), ::testing::ExitedWithCode(kDeadlineExit),
              "did not finish within 500 ms");
}

TEST_P(GpuDeviceFaults, ReportsAnIllegalAddress) {
  EXPECT_EXIT(Break("wild_write", {Bytes(std::uint64_t{0x10})}),
              ::testing::ExitedWithCode(kAbortedExit), "\\(700\\)");
}

TEST_P(GpuDeviceFaults, ReportsAMisalignedAddress) {
  const auto buffer = Upload(std::vector<int>{0, 0});
  EXPECT_EXIT(Break("misaligned", {Bytes(buffer->address())}),
              ::testing::ExitedWithCode(kAbortedExit), "\\(716\\)");
}

TEST_P(GpuDeviceFaults, ReportsATrap) {
  EXPECT_EXIT(Break("trap", {}), ::testing::ExitedWithCode(kAbortedExit), "\\([0-9]+\\)");
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuDeviceContract, ::testing::Values("cuda:0", "hip:0"));
INSTANTIATE_TEST_SUITE_P(Devices, GpuDeviceFaults, ::testing::Values("cuda:0", "hip:0"));

}  // namespace
}  // namespace fettle
