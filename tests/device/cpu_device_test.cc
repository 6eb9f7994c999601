// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_device.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cpu_lines.h"
#include "device/cpu_memory.h"
#include "device/null_device.h"
#include "tests/device/cpu_harness.h"
#include "tests/device/device_contract.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

constexpr char kContractSource[] =
    "extern \"C\" __global__ void add(float* y, const float* x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] += x[i];\n"
    "}\n"
    "extern \"C\" __global__ void fill(int* p, int value) { p[blockIdx.x] = value; }\n";

DeviceBackend CpuBackend(const std::string& name, CompileMode mode) {
  return {.name = name,
          .make = [] { return CpuDevice::Create({.threads = 2}); },
          .module = [mode](Device&) -> absl::StatusOr<ContractModule> {
            const CompileResult compiled = CompileOrFail(
                CpuRequest("contract.cu", kContractSource, {"add", "fill"}, {.mode = mode}));
            return ContractModule{compiled.code_object, compiled.symbols[0], compiled.symbols[1]};
          }};
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceContract,
    ::testing::Values(CpuBackend("cpu_fast", CompileMode::kFast),
                      CpuBackend("cpu_check", CompileMode::kCheck),
                      DeviceBackend{.name = "null",
                                    .make = [] { return MakeNullDevice(); },
                                    .module = [](Device&) -> absl::StatusOr<ContractModule> {
                                      return ContractModule{"bytes", "add", "fill"};
                                    },
                                    .computes = false}),
    DeviceBackendName);

CpuRun RunSource(Device& device, const std::string& source, const LaunchConfig& config,
                 std::vector<CpuArgument>& arguments, const CpuBuildOptions& options = {}) {
  return RunKernel(device, CompileOrFail(CpuRequest("k.cu", source, {"k"}, options)), config,
                   arguments);
}

TEST(CpuDevice, ReportsAFaultWithWhatWasHit) {
  auto device = CpuDevice::Create({.threads = 2});
  std::vector<CpuArgument> arguments = {In("x", std::vector<float>(256)), Out<float>("y", 256),
                                        Scalar(256)};
  const CompileResult compiled =
      CompileOrFail(CpuRequest("oob_write.cu", CpuTestSource("bugs/oob_write.cu"), {"oob_write"}));
  const CpuRun run =
      RunKernel(**device, compiled, {.grid = {2, 1, 1}, .block = {256, 1, 1}}, arguments);
  EXPECT_EQ(run.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(
      std::string(run.status.message()),
      HasSubstr("oob.write: kernel oob_write: buffer 'y' (1024 bytes): offset 1024, 0 bytes "
                "past the end"));
  // From now on the device is gone.
  std::vector<CpuArgument> more = {In("x", std::vector<float>(256)), Out<float>("y", 256),
                                   Scalar(1)};
  EXPECT_EQ(RunKernel(**device, compiled, {}, more).status.code(), absl::StatusCode::kAborted);
}

TEST(CpuDevice, ReportsADivisionByZeroAndADeepStack) {
  std::vector<CpuArgument> arguments = {Out<int>("y", 32), Scalar(0)};
  auto device = CpuDevice::Create({.threads = 1});
  CpuRun run = RunSource(**device,
                         "extern \"C\" __global__ void k(int* y, int n) { __syncthreads();\n"
                         "  y[threadIdx.x] = 7 / n; }\n",
                         {.block = {32, 1, 1}}, arguments);
  EXPECT_EQ(run.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("fault.arithmetic"));

  device = CpuDevice::Create({.threads = 1});
  run = RunSource(**device,
                  "extern \"C\" __global__ void k(int* y, int n) { volatile int big[50000];\n"
                  "  for (int i = 0; i < 50000; ++i) big[i] = n; __syncthreads();\n"
                  "  y[threadIdx.x] = big[n]; }\n",
                  {.block = {32, 1, 1}}, arguments);
  EXPECT_EQ(run.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("do not fit its 64 KiB stack"));
}

TEST(CpuDevice, EndsEndlessLoopsOfEveryKind) {
  const std::string loops[] = {
      // Inlined loop over threads; fibers; fibers on two workers.
      "extern \"C\" __global__ void k(volatile int* y, int n) { while (y[0] == n) {} }\n",
      "extern \"C\" __global__ void k(volatile int* y, int n) { __syncthreads();\n"
      "  while (y[0] == n) {} }\n"};
  for (const std::string& source : loops) {
    for (const CompileMode mode : {CompileMode::kFast, CompileMode::kCheck}) {
      auto device =
          CpuDevice::Create({.threads = 2, .launch_limit = std::chrono::milliseconds(200)});
      std::vector<CpuArgument> arguments = {InOut("y", std::vector<int>{5}), Scalar(5)};
      const CpuRun run = RunSource(**device, source, {.grid = {4, 1, 1}, .block = {32, 1, 1}},
                                   arguments, {.mode = mode});
      EXPECT_EQ(run.status.code(), absl::StatusCode::kDeadlineExceeded) << run.status;
      EXPECT_EQ((*device)->Synchronize({}).code(), absl::StatusCode::kDeadlineExceeded);
    }
  }
}

TEST(CpuDevice, RunsOnAfterAnotherDeviceFailed) {
  auto first = CpuDevice::Create({.threads = 2});
  std::vector<CpuArgument> bad = {Out<int>("y", 1), Scalar(0)};
  const std::string source =
      "extern \"C\" __global__ void k(int* y, int n) { __syncthreads(); y[n * 100000] = 1; }\n";
  bad[1] = Scalar(1);
  EXPECT_FALSE(RunSource(**first, source, {.grid = {8, 1, 1}}, bad).status.ok());
  auto second = CpuDevice::Create({.threads = 2});
  std::vector<CpuArgument> good = {Out<int>("y", 1), Scalar(0)};
  EXPECT_TRUE(RunSource(**second, source, {.grid = {8, 1, 1}}, good).status.ok());
  EXPECT_EQ(ValuesOf<int>(good[0])[0], 1);
}

TEST(CpuDevice, ChecksArgumentsAndSharedMemory) {
  auto device = CpuDevice::Create({});
  const std::string source =
      "extern \"C\" __global__ void k(int* y, short n) { __shared__ char s[60000];\n"
      "  s[threadIdx.x] = n; __syncthreads(); y[0] = s[0]; }\n";
  std::vector<CpuArgument> wide = {Out<int>("y", 1), Scalar(1)};
  CpuRun run = RunSource(**device, source, {}, wide);
  EXPECT_THAT(std::string(run.status.message()),
              HasSubstr("argument 1 has 4 bytes, the kernel's parameter 2"));
  std::vector<CpuArgument> few = {Out<int>("y", 1)};
  run = RunSource(**device, source, {}, few);
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("1 arguments, the kernel takes 2"));
  for (const CompileMode mode : {CompileMode::kFast, CompileMode::kCheck}) {
    std::vector<CpuArgument> fine = {Out<int>("y", 1), Scalar(std::int16_t{1})};
    run = RunSource(**device, source, {.shared_bytes = 8000}, fine, {.mode = mode});
    EXPECT_EQ(run.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(run.status.message()),
                HasSubstr("8000 bytes of dynamic and 60000 of static shared memory"));
    EXPECT_TRUE(
        RunSource(**device, source, {.shared_bytes = 4000}, fine, {.mode = mode}).status.ok());
  }
}

TEST(CpuDevice, CountsSharedMemoryPerKernel) {
  const CompileResult compiled = CompileOrFail(CpuRequest(
      "k.cu",
      "template <int N> __global__ void big(int* y) { __shared__ int s[N]; s[threadIdx.x] = 1;\n"
      "  __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }\n"
      "__global__ void small(int* y) { __shared__ int s[8]; s[threadIdx.x] = 1;\n"
      "  __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }\n",
      {"big<10000>", "small"}));
  auto device = CpuDevice::Create({});
  auto module = (*device)->Load(compiled.code_object, compiled.symbols);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ((*module)->Function(compiled.symbols[0])->static_shared_bytes, 40000);
  EXPECT_EQ((*module)->Function(compiled.symbols[1])->static_shared_bytes, 32);
}

TEST(CpuDevice, ListsWritableGlobals) {
  const CompileResult compiled = CompileOrFail(
      CpuRequest("k.cu",
                 "__device__ int counter;\nstatic __device__ const float table[4] = {1, 2, 3, 4};\n"
                 "__global__ void k(float* y, int i) { __shared__ float s[4]; s[i] = table[i];\n"
                 "  __syncthreads(); y[0] = s[i] + atomicAdd(&counter, 1); }\n",
                 {"k"}));
  auto device = CpuDevice::Create({});
  auto module = (*device)->Load(compiled.code_object, compiled.symbols);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_THAT((*module)->WritableGlobals(), testing::ElementsAre("counter"));
}

TEST(CpuDevice, BringsBackVariablesOfAModule) {
  const CompileResult compiled = CompileOrFail(CpuRequest(
      "k.cu",
      "__device__ int counter = 40;\n__constant__ int fixed = 0;\n"
      "__global__ void k(int* y) { static int inside; ++inside;\n"
      "  int* cast = const_cast<int*>(&fixed); asm volatile(\"\" : \"+r\"(cast)); ++*cast;\n"
      "  y[0] = ++counter + 100 * inside + 10000 * *cast; }\n",
      {"k"}));
  auto device = CpuDevice::Create({.threads = 1});
  auto module = (*device)->Load(compiled.code_object, compiled.symbols);
  ASSERT_TRUE(module.ok()) << module.status();
  auto buffer = (*device)->Allocate(256);
  ASSERT_TRUE(buffer.ok());
  const auto call = [&] {
    KernelArgument argument(8);
    const std::uint64_t address = (*buffer)->address();
    std::memcpy(argument.data(), &address, 8);
    const std::vector<KernelArgument> arguments{argument};
    EXPECT_TRUE((*device)->Launch(**module, compiled.symbols[0], {}, arguments).ok());
    std::int32_t value = 0;
    EXPECT_TRUE((*device)
                    ->CopyOut(**buffer, 0, {reinterpret_cast<std::uint8_t*>(&value), sizeof value})
                    .ok());
    return value;
  };
  const auto bytes = (*module)->SaveState();
  ASSERT_TRUE(bytes.ok());
  EXPECT_GE(*bytes, 12);
  EXPECT_EQ(call(), 10141);
  EXPECT_EQ(call(), 20242);
  ASSERT_TRUE((*module)->RestoreState().ok());
  EXPECT_EQ(call(), 10141);
}

TEST(CpuDevice, LoadsManyModulesAtOnce) {
  auto device = CpuDevice::Create({});
  std::vector<std::unique_ptr<DeviceModule>> modules;
  const CompileResult first =
      CompileOrFail(CpuRequest("k.cu", "__global__ void k(int* y) { *y = 1; }\n", {"k"}));
  const CompileResult second =
      CompileOrFail(CpuRequest("k.cu", "__global__ void k(int* y) { *y = 2; }\n", {"k"}));
  for (int round = 0; round < 20; ++round) {
    for (const auto* compiled : {&first, &second}) {
      std::vector<CpuArgument> arguments = {Out<int>("y", 1)};
      ASSERT_TRUE(RunKernel(**device, *compiled, {}, arguments).status.ok());
      EXPECT_EQ(ValuesOf<int>(arguments[0])[0], compiled == &first ? 1 : 2);
      modules.push_back(*(*device)->Load(compiled->code_object, compiled->symbols));
    }
  }
  EXPECT_EQ((*device)->Load("not an object", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuDevice, RunsEveryThreadOfEveryBlockOnce) {
  const std::string source =
      "extern \"C\" __global__ void k(int* y) {\n"
      "  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
      "  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
      "  y[b * blockDim.x * blockDim.y * blockDim.z + t] += b * 1000 + t; }\n";
  std::vector<int> want;
  for (int b = 0; b < 30; ++b) {
    for (int t = 0; t < 24; ++t) want.push_back(b * 1000 + t);
  }
  auto device = CpuDevice::Create({.threads = 3});
  for (const char* schedule : {"forward", "reverse", "random"}) {
    (*device)->SetSchedule(schedule, 3);
    std::vector<CpuArgument> arguments = {InOut("y", std::vector<int>(720, 0))};
    const CpuRun run =
        RunSource(**device, source, {.grid = {5, 3, 2}, .block = {4, 3, 2}}, arguments);
    ASSERT_TRUE(run.status.ok()) << run.status;
    EXPECT_EQ(ValuesOf<int>(arguments[0]), want) << schedule;
  }
}

TEST(CpuDevice, VotesMatchesAndReducesAtBothWidths) {
  const std::string source =
      "extern \"C\" __global__ void k(unsigned long long* out, const int* x) {\n"
      "  int t = threadIdx.x; unsigned long long all = ~0ull; int n;\n"
      "  unsigned long long r = __ballot_sync(all, x[t] > 2);\n"
      "  r += 3 * __match_any_sync(all, x[t]);\n"
      "  r += 5 * __reduce_max_sync(all, x[t]) + 7 * __reduce_add_sync(all, x[t]);\n"
      "  n = __syncthreads_count(x[t] == 1); r += 11 * n;\n"
      "  r += 13 * __syncthreads_or(x[t] == 99) + 17 * __syncthreads_and(x[t] >= -5);\n"
      "  out[t] = r; }\n";
  std::vector<int> x(128);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i * 5 % 7) - 2;
  for (const int lanes : {32, 64}) {
    std::vector<CpuArgument> arguments = {Out<std::uint64_t>("out", 128), In("x", x)};
    auto device = CpuDevice::Create({});
    const CpuRun run =
        RunSource(**device, source, {.block = {128, 1, 1}}, arguments, {.lanes = lanes});
    ASSERT_TRUE(run.status.ok()) << run.Text();
    const auto got = ValuesOf<std::uint64_t>(arguments[0]);
    for (int t = 0; t < 128; ++t) {
      std::uint64_t votes = 0, same = 0;
      std::int64_t most = -100, sum = 0, ones = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        const int v = x[static_cast<std::size_t>(t / lanes * lanes + lane)];
        if (v > 2) votes |= std::uint64_t{1} << lane;
        if (v == x[static_cast<std::size_t>(t)]) same |= std::uint64_t{1} << lane;
        most = std::max<std::int64_t>(most, v);
        sum += v;
      }
      for (int v : x) ones += v == 1;
      const std::uint64_t want = votes + 3 * same + static_cast<std::uint64_t>(5 * most + 7 * sum) +
                                 static_cast<std::uint64_t>(11 * ones) + 17;
      ASSERT_EQ(got[static_cast<std::size_t>(t)], want) << "thread " << t << " lanes " << lanes;
    }
  }
}

TEST(CpuDevice, PutsBuffersBeforeAnUnmappedPage) {
  auto device = CpuDevice::Create({});
  auto buffer = (*device)->AllocatePageEnd(24, 8);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(((*buffer)->address() + 24) % 4096, 0u);
  EXPECT_EQ(CpuBuffer::Owner((*buffer)->address() + 24), buffer->get());
  EXPECT_FALSE((*device)->AllocatePageEnd(24, 16).ok());
  EXPECT_FALSE((*device)->AllocatePageEnd(24, 3).ok());
}

TEST(CpuDevice, TellsPayloadFromGuardsInCheckMode) {
  const CompileResult compiled = CompileOrFail(
      CpuRequest("k.cu", "extern \"C\" __global__ void k(int* y, int i) { y[i] = 1; }\n", {"k"},
                 {.mode = CompileMode::kCheck}));
  auto device = CpuDevice::Create({});
  auto module = (*device)->Load(compiled.code_object, compiled.symbols);
  auto buffer = (*device)->Allocate(1024);
  ASSERT_TRUE(module.ok() && buffer.ok());
  (*device)->SetPayload(**buffer, 256, 512);
  (*device)->Annotate(**buffer, {"y", false, false});
  for (const auto& [index, kind] : {std::pair{127, ""}, {128, "oob.write"}, {-1, "oob.write"}}) {
    std::vector<KernelArgument> arguments(2);
    const std::uint64_t address = (*buffer)->address() + 256;
    const int i = index;
    arguments[0].resize(8);
    std::memcpy(arguments[0].data(), &address, 8);
    arguments[1].resize(4);
    std::memcpy(arguments[1].data(), &i, 4);
    ASSERT_TRUE((*device)->Launch(**module, compiled.symbols[0], {}, arguments).ok());
    const auto findings = (*device)->TakeFindings();
    EXPECT_EQ(findings.empty() ? "" : findings[0].kind, kind) << index;
  }
}

TEST(CpuDevice, KeepsWhatEarlierLaunchesWrote) {
  // A second launch may read what the first one wrote, and may write what it read.
  const std::string source =
      "extern \"C\" __global__ void k(float* t, float* y, int step) {\n"
      "  int i = threadIdx.x; if (step == 0) t[i] = i; else y[i] = t[blockDim.x - 1 - i]; }\n";
  const CompileResult compiled =
      CompileOrFail(CpuRequest("k.cu", source, {"k"}, {.mode = CompileMode::kCheck}));
  auto device = CpuDevice::Create({});
  auto module = (*device)->Load(compiled.code_object, compiled.symbols);
  auto t = (*device)->Allocate(256), y = (*device)->Allocate(256);
  (*device)->Annotate(**t, {"t", false, false});
  (*device)->Annotate(**y, {"y", false, false});
  for (const int step : {0, 1, 0}) {
    std::vector<KernelArgument> arguments(3, KernelArgument(8));
    const std::uint64_t addresses[] = {(*t)->address(), (*y)->address()};
    std::memcpy(arguments[0].data(), &addresses[0], 8);
    std::memcpy(arguments[1].data(), &addresses[1], 8);
    arguments[2].resize(4);
    std::memcpy(arguments[2].data(), &step, 4);
    ASSERT_TRUE(
        (*device)->Launch(**module, compiled.symbols[0], {.block = {64, 1, 1}}, arguments).ok());
  }
  for (const CheckFinding& finding : (*device)->TakeFindings()) ADD_FAILURE() << finding.message;
}

TEST(LineTable, SurvivesDamagedBytes) {
  const CompileResult compiled =
      CompileOrFail(CpuRequest("k.cu", "__global__ void k(int* y) {\n  y[0] = 1;\n}\n", {"k"},
                               {.mode = CompileMode::kCheck}));
  for (std::size_t at = 0; at + 400 < compiled.code_object.size(); at += 97) {
    const LineTable table(std::string_view(compiled.code_object).substr(at, 400));
    EXPECT_GE(table.Find(16).line, 0);
  }
}

}  // namespace
}  // namespace fettle
