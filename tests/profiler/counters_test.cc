// SPDX-License-Identifier: Apache-2.0
#include "profiler/counters.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using ::testing::HasSubstr;

std::string Recorded(const std::string& name) {
  std::ifstream in(std::string(FETTLE_SOURCE_DIR) + "/tests/data/counters/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

const CounterFact* Fact(const KernelCounters& kernel, const std::string& name) {
  for (const CounterFact& fact : kernel.facts) {
    if (fact.name == name) return &fact;
  }
  return nullptr;
}

TEST(NcuCounters, AreNamedAndHaveUnits) {
  RawCounters raw;
  ASSERT_TRUE(AddNcuCsv(Recorded("ncu.csv"), raw).ok());
  const auto kernels = CounterFacts(Vendor::kNvidia, raw);
  ASSERT_EQ(kernels.size(), 2U);
  const KernelCounters& twice = kernels[1];
  EXPECT_EQ(twice.kernel, "twice");
  EXPECT_EQ(twice.launches, 2);
  ASSERT_NE(Fact(twice, "dram_read_bytes"), nullptr);
  EXPECT_DOUBLE_EQ(Fact(twice, "dram_read_bytes")->value, 2 * 262144) << "amounts add up";
  EXPECT_EQ(Fact(twice, "dram_read_bytes")->unit, "byte");
  EXPECT_DOUBLE_EQ(Fact(twice, "achieved_occupancy")->value, 41) << "ratios are averaged";
  EXPECT_EQ(Fact(twice, "achieved_occupancy")->unit, "percent");
  EXPECT_EQ(Fact(twice, "matrix_instructions"), nullptr) << "n/a is absent, not zero";
  EXPECT_EQ(kernels[0].kernel, "_Z4tailPKfPfi");
}

// Seen on an H200: a kernel without matrix instructions counted 524,288 of them.
TEST(NcuCounters, HalfPairArithmeticIsNoMatrixInstruction) {
  const std::string all = "sm__inst_executed_pipe_tensor.sum";
  const std::string pairs = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum";
  const auto matrix = [](const RawCounters& raw) {
    const auto kernels = CounterFacts(Vendor::kNvidia, raw);
    EXPECT_EQ(kernels.at(0).facts.size(), 1U);
    EXPECT_EQ(kernels.at(0).facts.at(0).name, "matrix_instructions");
    return kernels.at(0).facts.at(0).value;
  };
  EXPECT_EQ(matrix({{"norm", {{all, {524288}}, {pairs, {524288}}}}}), 0);
  EXPECT_EQ(matrix({{"gemm", {{all, {100, 60}}, {pairs, {10, 20}}}}}), 130);
  EXPECT_EQ(matrix({{"gemm", {{all, {100}}}}}), 100);  // Where there is no such counter.
}

TEST(RocprofCounters, AreNamedAndHaveUnits) {
  RawCounters raw;
  ASSERT_TRUE(AddRocprofCsv(Recorded("rocprofv3.csv"), raw).ok());
  const auto kernels = CounterFacts(Vendor::kAmd, raw);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[1].kernel, "void tail<float, 2>(float*, \"odd\")");
  const KernelCounters& twice = kernels[0];
  EXPECT_EQ(twice.launches, 2);
  EXPECT_DOUBLE_EQ(Fact(twice, "dram_read_bytes")->value, 512.5 * 1024) << "FETCH_SIZE counts KB";
  EXPECT_DOUBLE_EQ(Fact(twice, "waves")->value, 2048);
  EXPECT_DOUBLE_EQ(Fact(twice, "achieved_occupancy")->value, 32);
}

TEST(Counters, OtherTextIsNoTable) {
  RawCounters raw;
  EXPECT_TRUE(absl::IsInvalidArgument(AddNcuCsv("==ERROR== no\n", raw)));
  EXPECT_TRUE(absl::IsInvalidArgument(AddNcuCsv("", raw)));
  EXPECT_TRUE(absl::IsInvalidArgument(AddRocprofCsv(Recorded("ncu.csv"), raw)));
  // A line that was cut off has another number of fields.
  ASSERT_TRUE(
      AddNcuCsv("\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n\"k\",\"m\"\n", raw).ok());
  EXPECT_TRUE(raw.empty());
}

TEST(Counters, ThePassesHoldEveryCounterOnce) {
  for (const Vendor vendor : {Vendor::kNvidia, Vendor::kAmd}) {
    std::vector<std::string> all;
    for (const auto& pass : CounterPasses(vendor)) all.insert(all.end(), pass.begin(), pass.end());
    std::sort(all.begin(), all.end());
    EXPECT_GT(all.size(), 10U);
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    RawCounters raw;
    for (const std::string& counter : all) raw["k"][counter] = {1};
    // Each is a fact, but for the one that is taken off another.
    const std::size_t taken_off = vendor == Vendor::kNvidia ? 1 : 0;
    EXPECT_EQ(CounterFacts(vendor, raw)[0].facts.size(), all.size() - taken_off);
  }
  EXPECT_TRUE(CounterPasses(Vendor::kCpu).empty());
}

TEST(Counters, OnlyTheNamedKernelsAreProfiled) {
  const auto ncu =
      ProfilerCommand(Vendor::kNvidia, "/x/ncu", {"_Z3addPf", "a.b"}, {"m.sum", "n.avg"}, "/tmp");
  EXPECT_THAT(ncu, ::testing::Contains("regex:^(_Z3addPf|a\\.b)$"));
  EXPECT_EQ(ncu.back(), "m.sum,n.avg");
  const auto rocprof = ProfilerCommand(Vendor::kAmd, "/x/rocprofv3", {"add"}, {"A", "B"}, "/tmp/f");
  EXPECT_THAT(rocprof, ::testing::Contains("^(add)$"));
  EXPECT_EQ(rocprof.back(), "--");
}

TEST(Counters, TheReportSaysWhyThereIsNothing) {
  const nlohmann::json json = ToJson({.tool = "ncu", .absent = "not installed"});
  EXPECT_EQ(json["absent"], "not installed");
  EXPECT_TRUE(json["kernels"].empty());
}

}  // namespace
}  // namespace fettle
