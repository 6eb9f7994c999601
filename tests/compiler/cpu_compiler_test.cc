// SPDX-License-Identifier: Apache-2.0
#include "compiler/cpu_compiler.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/files.h"
#include "tests/compiler/kernel_compiler_contract.h"
#include "tests/fakes/fake_compiler.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target CpuTarget() { return {.name = "cpu", .vendor = Vendor::kCpu}; }

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeCpu(const std::string& compiler) {
  return CpuCompiler::Create({.compiler = compiler, .cache_dir = FETTLE_TEST_CACHE});
}

INSTANTIATE_TEST_SUITE_P(Fake, KernelCompilerContract,
                         ::testing::Values(CompilerBackend{
                             .name = "fake",
                             .make = [] { return std::make_unique<FakeCompiler>(); },
                             .target = CpuTarget()}),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Cpu, KernelCompilerContract,
                         ::testing::Values(CompilerBackend{.name = "gxx_cuda",
                                                           .make = [] { return MakeCpu("g++"); },
                                                           .target = CpuTarget()},
                                           CompilerBackend{.name = "gxx_hip",
                                                           .make = [] { return MakeCpu("g++"); },
                                                           .target = CpuTarget(),
                                                           .dialect = Dialect::kHip},
                                           CompilerBackend{
                                               .name = "clangxx",
                                               .make = [] { return MakeCpu("clang++"); },
                                               .target = CpuTarget()}),
                         BackendName);

class CpuCompilerTest : public ::testing::Test {
 protected:
  static CpuCompiler& Compiler() {
    static const std::unique_ptr<CpuCompiler> compiler =
        *CpuCompiler::Create({.cache_dir = FETTLE_TEST_CACHE});
    return *compiler;
  }
  static CompileRequest Request(std::string source, std::vector<std::string> entries = {"k"}) {
    CompileRequest request;
    request.target = CpuTarget();
    request.source_name = "k.cu";
    request.source = std::move(source);
    request.entries = std::move(entries);
    return request;
  }
  static CompileResult Compile(const CompileRequest& request) {
    auto result = Compiler().Compile(request, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : CompileResult{};
  }
};

constexpr char kEmptyKernel[] = "__global__ void k(int* p) { *p = 1; }\n";

TEST_F(CpuCompilerTest, SaysWhatItIs) {
  EXPECT_THAT(Compiler().report().compiler, HasSubstr("g++"));
  EXPECT_THAT(Compiler().identity(), HasSubstr(Compiler().report().compiler));
  // Without isolation a warning must say so.
  EXPECT_EQ(Compiler().report().isolated, Compiler().report().warning.empty());
}

TEST_F(CpuCompilerTest, ReportsEntriesThatDoNotExist) {
  const CompileResult result = Compile(Request(kEmptyKernel, {"k", "missing<float>"}));
  EXPECT_FALSE(result.accepted);
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_THAT(result.diagnostics[0].text, HasSubstr("entry missing<float>"));
}

TEST_F(CpuCompilerTest, NamesHeadersAndLinesAsTheUserDoes) {
  CompileRequest request = Request("#include \"inner/bad.h\"\n__global__ void k(int* p) {}\n");
  request.source_name = "src/k.cu";
  request.headers = {{"src/inner/bad.h", "// fine\nint f() { return undeclared; }\n"}};
  const CompileResult result = Compile(request);
  EXPECT_FALSE(result.accepted);
  ASSERT_FALSE(result.diagnostics.empty()) << result.log;
  EXPECT_EQ(result.diagnostics[0].file, "src/inner/bad.h") << result.log;
  EXPECT_EQ(result.diagnostics[0].line, 2);
  EXPECT_THAT(result.log, Not(HasSubstr("/job")));
}

TEST_F(CpuCompilerTest, ShowsNoFilesToTheSource) {
  for (const std::string path : {"/etc/passwd", "/proc/self/environ", "../../../etc/passwd"}) {
    const CompileResult result = Compile(Request("#include \"" + path + "\"\n" + kEmptyKernel));
    EXPECT_FALSE(result.accepted) << path;
    EXPECT_THAT(result.log, Not(HasSubstr("root:"))) << path;
  }
}

TEST_F(CpuCompilerTest, IsolationHidesFilesFromTheAssembler) {
  if (!Compiler().report().isolated) GTEST_SKIP() << Compiler().report().warning;
  const CompileResult result = Compile(Request(
      "asm(\".data\\n.incbin \\\"/etc/passwd\\\"\\n.text\");\n" + std::string(kEmptyKernel)));
  EXPECT_FALSE(result.accepted);
  EXPECT_THAT(result.code_object, Not(HasSubstr("root:")));
}

TEST_F(CpuCompilerTest, RefusesAssemblyWithoutIsolation) {
  auto compiler = CpuCompiler::Create({.cache_dir = FETTLE_TEST_CACHE, .isolate = false});
  ASSERT_TRUE(compiler.ok());
  EXPECT_THAT((*compiler)->report().warning, HasSubstr("without isolation"));
  auto refused =
      (*compiler)->Compile(Request("__asm__(\".data\\n.incbin \\\"/etc/passwd\\\"\\n.text\");\n" +
                                   std::string(kEmptyKernel)),
                           {});
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->accepted);
  EXPECT_THAT(refused->log, HasSubstr("inline assembly is refused"));
  auto plain = (*compiler)->Compile(Request(kEmptyKernel), {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->accepted) << plain->log;
}

TEST_F(CpuCompilerTest, RefusesHostCode) {
  const CompileResult system =
      Compile(Request("extern \"C\" int system(const char*);\n__global__ void k(int* p) { *p = "
                      "system(\"id\"); }\n"));
  EXPECT_FALSE(system.accepted);
  EXPECT_THAT(system.log, HasSubstr("calls system"));
  const CompileResult undefined =
      Compile(Request("int helper(int);\n__global__ void k(int* p) { *p = helper(1); }\n"));
  EXPECT_FALSE(undefined.accepted);
}

TEST_F(CpuCompilerTest, RefusesOptionsOutsideTheList) {
  CompileRequest request = Request(kEmptyKernel);
  request.options = {"-O2", "-fplugin=/tmp/x.so"};
  const CompileResult result = Compile(request);
  EXPECT_FALSE(result.accepted);
  EXPECT_THAT(result.log, HasSubstr("option -fplugin=/tmp/x.so is not allowed"));
}

TEST_F(CpuCompilerTest, TakesOptionsAndMacros) {
  CompileRequest request = Request(
      "static_assert(A == 3 && B == 1 && __cplusplus >= 202002L, \"\");\n"
      "__global__ void k(float* p) { p[threadIdx.x] = __expf(p[threadIdx.x]) * T; }\n");
  request.options = {"-DB", "-std=c++20", "--use_fast_math"};
  request.macros = {{"A", "3"}, {"T", "2.f"}};  // T is a name that our own headers use.
  const CompileResult result = Compile(request);
  EXPECT_TRUE(result.accepted) << result.log;
}

TEST_F(CpuCompilerTest, RefusesMacrosAndEntriesThatAreMore) {
  CompileRequest macro = Request(kEmptyKernel);
  macro.macros = {{"A", "1\n#include \"/etc/passwd\""}};
  EXPECT_FALSE(Compile(macro).accepted);
  EXPECT_FALSE(Compile(Request(kEmptyKernel, {"k) int x; FOO(k"})).accepted);
  EXPECT_FALSE(Compile(Request(kEmptyKernel, {"k); int x = 1; f(k"})).accepted);
  CompileRequest header = Request(kEmptyKernel);
  header.headers = {{"../escape.h", ""}};
  EXPECT_FALSE(Compile(header).accepted);
}

TEST_F(CpuCompilerTest, EndsCompileBombsAsRejections) {
  CpuCompilerOptions options{.cache_dir = FETTLE_TEST_CACHE};
  options.limits.wall = std::chrono::seconds(10);
  options.limits.cpu_seconds = 3;
  options.limits.address_space_bytes = 512 << 20;
  auto compiler = CpuCompiler::Create(options);
  ASSERT_TRUE(compiler.ok());
  const std::string bomb =
      "template <int D, int P> struct B { static const int v = B<D - 1, 2 * P>::v +\n"
      "  B<D - 1, 2 * P + 1>::v; };\n"
      "template <int P> struct B<0, P> { static const int v = P; };\n"
      "__global__ void k(int* p) { *p = B<26, 0>::v; }\n";
  auto result = (*compiler)->Compile(Request(bomb), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->accepted);
  EXPECT_FALSE(result->repeatable);
  ASSERT_FALSE(result->diagnostics.empty());
  EXPECT_THAT(result->log, HasSubstr("limit"));
  auto next = (*compiler)->Compile(Request(kEmptyKernel), {});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next->accepted) << next->log;
}

TEST_F(CpuCompilerTest, StopsWhileItRuns) {
  std::stop_source stop;
  std::jthread stopper([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop.request_stop();
  });
  const std::string slow =
      "template <int D, int P> struct B { static const int v = B<D - 1, 2 * P>::v +\n"
      "  B<D - 1, 2 * P + 1>::v; };\n"
      "template <int P> struct B<0, P> { static const int v = P; };\n"
      "__global__ void k(int* p) { *p = B<26, 0>::v; }\n";
  const auto result = Compiler().Compile(Request(slow), stop.get_token());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(CpuCompilerTest, WorksInAFreshCacheAndLeavesNothingElse) {
  auto folder = TemporaryFolder::Create("");
  ASSERT_TRUE(folder.ok());
  auto first = CpuCompiler::Create({.cache_dir = folder->path()});
  auto second = CpuCompiler::Create({.cache_dir = folder->path()});
  ASSERT_TRUE(first.ok() && second.ok());
  // Both make the precompiled header at once.
  std::atomic<int> accepted{0};
  {
    std::jthread other([&] {
      auto result = (*second)->Compile(Request(kEmptyKernel), {});
      if (result.ok() && result->accepted) ++accepted;
    });
    auto result = (*first)->Compile(Request(kEmptyKernel), {});
    if (result.ok() && result->accepted) ++accepted;
  }
  EXPECT_EQ(accepted, 2);
}

// As g++ of Ubuntu is configured.
TEST_F(CpuCompilerTest, CompilesWhereTheDistributionHardensByDefault) {
  const std::string path = testing::TempDir() + "/hardening-g++";
  ASSERT_TRUE(WriteFile(path,
                        "#!/bin/sh\n"
                        "exec g++ -fstack-protector-all -D_FORTIFY_SOURCE=2 \"$@\"\n")
                  .ok());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto compiler = CpuCompiler::Create({.compiler = path, .isolate = false});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  CompileRequest request = Request(R"(
__global__ void k(float* x, int n) {
  float some[64];
  memcpy(some, x, n * sizeof(float));
  x[0] = some[n - 1];
})");
  for (const CompileMode mode : {CompileMode::kFast, CompileMode::kCheck}) {
    request.mode = mode;
    const auto result = (*compiler)->Compile(request, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->accepted) << (result->diagnostics.empty() ? ""
                                                                  : result->diagnostics[0].text);
  }
}

TEST(CpuCompilerCreate, SaysWhenThereIsNoCompiler) {
  const auto made = CpuCompiler::Create({.compiler = "no-such-compiler"});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("no-such-compiler"));
}

}  // namespace
}  // namespace fettle
