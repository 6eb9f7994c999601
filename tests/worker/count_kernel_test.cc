// SPDX-License-Identifier: Apache-2.0
// Runs under stand-ins for the vendors' profilers: a good one, one that lacks a counter, one that
// is refused, one that hangs, one that saw nothing.
#include "worker/count_kernel.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class CountKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    const fs::path source = FETTLE_SOURCE_DIR;
    for (const char* file : {"ncu.csv", "rocprofv3.csv"}) {
      fs::copy_file(source / "tests/data/counters" / file, folder.path() / file);
    }
    for (const char* file : {"ncu.sh", "rocprofv3.sh"}) {
      fs::copy_file(source / "tests/fakes/stand_in_profilers" / file, folder.path() / file);
    }
    replay.symbols = {"twice"};
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.device_id = "cuda:0";
  }
  CounterReport Ncu(const std::string& behaviour) {
    std::ofstream(folder.path() / "behaviour") << behaviour;
    options.profiler = folder.path() / "ncu.sh";
    return CountKernel(replay, options, {});
  }

  TemporaryFolder folder;
  Replay replay;
  CountOptions options;
};

TEST_F(CountKernelTest, ReadsWhatNcuPrints) {
  const CounterReport report = Ncu("good");
  EXPECT_EQ(report.absent, "");
  ASSERT_EQ(report.kernels.size(), 2U);
  EXPECT_EQ(report.kernels[1].launches, 2);
  EXPECT_TRUE(report.missing.empty());
}

TEST_F(CountKernelTest, GoesOnWithoutACounterThatIsNotKnown) {
  const CounterReport report = Ncu("unknown");
  EXPECT_EQ(report.absent, "");
  EXPECT_EQ(report.kernels.size(), 2U);
  // Another counter, whose name is the beginning of this one, is not lost with it.
  EXPECT_THAT(report.missing, Contains(HasSubstr("hfma2")));
  EXPECT_EQ(report.missing.size(), 1U);
}

TEST_F(CountKernelTest, AbsenceIsAValueWithTheReason) {
  EXPECT_THAT(Ncu("refused").absent, HasSubstr("ERR_NVGPUCTRPERM"));
  EXPECT_THAT(Ncu("silent").absent, HasSubstr("No kernels"));
  EXPECT_NE(Ncu("crashes").absent, "");
  options.profiler.clear();
  setenv("FETTLE_NCU", "/nonexistent/ncu", 1);
  EXPECT_THAT(CountKernel(replay, options, {}).absent, HasSubstr("not installed"));
  unsetenv("FETTLE_NCU");
  options.vendor = Vendor::kCpu;
  EXPECT_THAT(CountKernel(replay, options, {}).absent, HasSubstr("no counters"));
}

TEST_F(CountKernelTest, EndsAtItsLimit) {
  options.limit = std::chrono::seconds(1);
  EXPECT_THAT(Ncu("hangs").absent, HasSubstr("did not end in time"));
}

TEST_F(CountKernelTest, GathersTheRunsOfRocprof) {
  options.vendor = Vendor::kAmd;
  options.device_id = "hip:0";
  options.profiler = folder.path() / "rocprofv3.sh";
  const CounterReport report = CountKernel(replay, options, {});
  EXPECT_EQ(report.absent, "");
  ASSERT_EQ(report.kernels.size(), 2U);
  std::vector<std::string> names;
  for (const CounterFact& fact : report.kernels[0].facts) names.push_back(fact.name);
  EXPECT_THAT(names, Contains("dram_read_bytes"));
  EXPECT_THAT(names, Contains("achieved_occupancy"));
  EXPECT_THAT(report.missing, Contains("WRITE_SIZE"));
}

TEST(Replay, SurvivesItsFile) {
  Replay replay;
  replay.code_object = std::string("\0\1\377 code", 8);
  replay.symbols = {"a", "b"};
  replay.request.files = {{"fill.npy", std::string("\200x", 2)}};
  replay.request.input_seed = 77;
  const auto back = ReplayFromJson(ToJson(replay));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->code_object, replay.code_object);
  EXPECT_EQ(back->symbols, replay.symbols);
  EXPECT_EQ(back->request.files, replay.request.files);
  EXPECT_EQ(back->request.input_seed, 77U);
  EXPECT_FALSE(ReplayFromJson(nlohmann::json::object()).ok());
}

}  // namespace
}  // namespace fettle
