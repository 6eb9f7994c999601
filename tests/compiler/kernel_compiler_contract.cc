// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/kernel_compiler_contract.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>

namespace fettle {

using ::testing::HasSubstr;

void KernelCompilerContract::SetUp() {
  auto made = GetParam().make();
  const char* require = std::getenv("FETTLE_REQUIRE_GPU");
  const bool required =
      require != nullptr && std::string(require) == "1" && GetParam().target.vendor != Vendor::kCpu;
  if (absl::IsUnavailable(made.status()) && !required) {
    GTEST_SKIP() << std::string(made.status().message());
  }
  ASSERT_TRUE(made.ok()) << made.status();
  compiler_ = *std::move(made);
}

CompileRequest KernelCompilerContract::Request() const {
  CompileRequest request;
  request.target = GetParam().target;
  request.dialect = GetParam().dialect;
  request.source_name = "add.cu";
  request.source =
      "#ifdef __HIPCC__\n#include <hip/hip_runtime.h>\n#endif\n"
      "extern \"C\" __global__ void add(const float* x, float* y, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) y[i] += x[i] * FACTOR;\n"
      "}\n"
      "template <typename T> __global__ void scale(T* y, T by) { y[threadIdx.x] *= by; }\n";
  request.macros = {{"FACTOR", "2"}};
  request.entries = {"add", "scale<float>"};
  return request;
}

TEST_P(KernelCompilerContract, AcceptsAKernelAndNamesItsSymbols) {
  const auto result = compiler_->Compile(Request(), {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->accepted) << result->log;
  EXPECT_FALSE(result->code_object.empty());
  ASSERT_EQ(result->symbols.size(), 2u);
  EXPECT_NE(result->symbols[0], result->symbols[1]);
  for (const std::string& symbol : result->symbols) {
    EXPECT_THAT(result->code_object, HasSubstr(symbol));
  }
  EXPECT_FALSE(result->compiler.empty());
  EXPECT_GE(result->elapsed.count(), 0);
}

TEST_P(KernelCompilerContract, RejectsABadSourceAtTheUsersOwnLine) {
  CompileRequest request = Request();
  request.source += "#error \"not this way\"\n";
  const int line = static_cast<int>(std::count(request.source.begin(), request.source.end(), '\n'));
  const auto result = compiler_->Compile(request, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->accepted);
  EXPECT_TRUE(result->code_object.empty());
  ASSERT_FALSE(result->diagnostics.empty()) << result->log;
  EXPECT_EQ(result->diagnostics[0].file, "add.cu");
  EXPECT_EQ(result->diagnostics[0].line, line);
  EXPECT_EQ(result->diagnostics[0].severity, "error");
  EXPECT_LE(result->log.size(), 65536u);
}

TEST_P(KernelCompilerContract, TellsBadRequestsFromBadSources) {
  CompileRequest empty = Request();
  empty.source.clear();
  EXPECT_EQ(compiler_->Compile(empty, {}).status().code(), absl::StatusCode::kInvalidArgument);
  CompileRequest nothing = Request();
  nothing.entries.clear();
  EXPECT_EQ(compiler_->Compile(nothing, {}).status().code(), absl::StatusCode::kInvalidArgument);
  CompileRequest foreign = Request();
  foreign.target =
      Target{.name = "vax",
             .vendor = GetParam().target.vendor == Vendor::kCpu ? Vendor::kNvidia : Vendor::kCpu};
  EXPECT_EQ(compiler_->Compile(foreign, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(KernelCompilerContract, ReportsCancellation) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(compiler_->Compile(Request(), stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_P(KernelCompilerContract, KnowsItself) {
  EXPECT_FALSE(compiler_->name().empty());
  EXPECT_FALSE(compiler_->identity().empty());
  EXPECT_TRUE(compiler_->Supports(GetParam().target));
}

TEST_P(KernelCompilerContract, CompilesFromSeveralThreads) {
  std::atomic<int> accepted{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([this, i, &accepted] {
        CompileRequest request = Request();
        request.macros = {{"FACTOR", std::to_string(i)}};
        const auto result = compiler_->Compile(request, {});
        if (result.ok() && result->accepted) ++accepted;
      });
    }
  }
  EXPECT_EQ(accepted, 4);
}

}  // namespace fettle
