// SPDX-License-Identifier: Apache-2.0
// The contract of the GPU compilers, run on each that is here: NVRTC and hiprtc skip with a reason
// where they are not, clang must be there (deploy/packages.txt).
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/gpu/gpu_compilers.h"

namespace fettle {
namespace {

struct Backend {
  std::string compiler, target;
  friend void PrintTo(const Backend& backend, std::ostream* out) {
    *out << backend.compiler << " " << backend.target;
  }
};

GpuCompilersOptions Options() {
  return {.program = std::string(FETTLE_BIN_DIR) + "/fettle-compiled", .cpu_seconds = 5};
}

// Found once for all tests: starting a server takes a while.
GpuCompilerSearch& Found(const std::string& name) {
  static std::vector<GpuCompilerSearch> found = FindGpuCompilers(Options());
  for (GpuCompilerSearch& search : found) {
    if (search.name == name) return search;
  }
  ADD_FAILURE() << "no search for " << name;
  return found.front();
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr char kPlain[] = R"(#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <stdint.h>

template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK, 2) row_sum(const T* x, float* y, int cols) {
  __shared__ float partial[32];
  float sum = 0;
  const T* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  for (int i = threadIdx.x; i < cols; i += BLOCK) sum += static_cast<float>(row[i]);
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < BLOCK / 32; ++i) sum += partial[i];
    atomicAdd(&y[blockIdx.x], sum * SCALE);
  }
}
extern "C" __global__ void fill(unsigned* p, unsigned v) { p[blockIdx.x * blockDim.x + threadIdx.x] = v; }
)";

// What a compiler said, for failure messages.
std::string Said(const CompileResult& result) {
  std::string text = result.log;
  for (const Diagnostic& d : result.diagnostics) {
    text += fmt::format("\n{}:{}:{}: {}: {}", d.file, d.line, d.column, d.severity, d.text);
  }
  return text;
}

class GpuCompilerContract : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    GpuCompilerSearch& search = Found(GetParam().compiler);
    if (search.compiler == nullptr && GetParam().compiler != "clang") {
      ASSERT_TRUE(absl::IsUnavailable(search.status)) << search.status;
      GTEST_SKIP() << search.status;
    }
    ASSERT_NE(search.compiler, nullptr) << search.status;
    compiler_ = search.compiler.get();
    const auto target = FindTarget(GetParam().target);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *target;
    if (!compiler_->Supports(target_)) {
      GTEST_SKIP() << compiler_->identity() << " does not know " << target_.name;
    }
    // NVRTC as deploy/scripts/get_nvrtc.sh fetches it comes without CUDA's headers.
    headers_ =
        target_.vendor != Vendor::kNvidia ||
        Compile(
            Of("#include <cuda_fp16.h>\nextern \"C\" __global__ void k(int* p) { *p = 1; }", "k"))
            .accepted;
  }

  // Of half-precision types, or of others where there are no headers for them.
  CompileRequest Plain() const {
    CompileRequest request{
        .target = target_,
        .dialect = Dialect::kCuda,
        .source_name = "kernel.cu",
        .source = kPlain,
        .macros = {{"SCALE", "2.0f"}},
        .entries = {"row_sum<__half, 256>", "row_sum<__nv_bfloat16,512>", "fill"}};
    if (headers_) return request;
    request.source = request.source.substr(request.source.find("#include <stdint.h>"));
    request.entries = {"row_sum<float, 256>", "row_sum<int,512>", "fill"};
    return request;
  }

  CompileRequest Of(std::string source, std::string entry) const {
    return {.target = target_,
            .dialect = Dialect::kCuda,
            .source_name = "kernel.cu",
            .source = std::move(source),
            .entries = {std::move(entry)}};
  }

  CompileResult Compile(const CompileRequest& request) {
    auto result = compiler_->Compile(request, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : CompileResult{};
  }

  KernelCompiler* compiler_ = nullptr;
  Target target_;
  bool headers_ = true;  // CUDA's, of NVRTC.
};

TEST_P(GpuCompilerContract, CompilesTemplatesAndNamesTheirSymbols) {
  const CompileResult result = Compile(Plain());
  ASSERT_TRUE(result.accepted) << Said(result);
  ASSERT_EQ(result.symbols.size(), 3U);
  EXPECT_NE(result.symbols[0].find("row_sum"), std::string::npos);
  EXPECT_NE(result.symbols[0], result.symbols[1]);
  EXPECT_EQ(result.symbols[2], "fill");
  for (const std::string& symbol : result.symbols) {
    EXPECT_NE(result.code_object.find(symbol), std::string::npos);
  }
  EXPECT_EQ(result.code_object.substr(1, 3), "ELF");
  EXPECT_FALSE(result.compiler.empty());
  EXPECT_NE(compiler_->identity().find(result.compiler), std::string::npos);
}

// A kernel that nvcc takes as it is, with and without the headers that usually come along.
TEST_P(GpuCompilerContract, KnowsInfinityWithoutAHeader) {
  CompileRequest request = Plain();
  request.entries = {"softest"};
  for (const char* headers : {"", "#include <math.h>\n", "#include <cfloat>\n#include <cmath>\n"}) {
    request.source = std::string(headers) +
                     "extern \"C\" __global__ void softest(float* y) {\n"
                     "  float most = -INFINITY;\n"
                     "  for (int i = 0; i < 4; ++i) most = fmaxf(most, y[i]);\n"
                     "  y[0] = most == INFINITY ? NAN : most;\n}\n";
    const CompileResult result = Compile(request);
    EXPECT_TRUE(result.accepted) << headers << Said(result);
  }
}

TEST_P(GpuCompilerContract, GivesTheSameCodeForTheSameRequest) {
  const CompileResult first = Compile(Plain()), second = Compile(Plain());
  ASSERT_TRUE(first.accepted) << Said(first);
  EXPECT_TRUE(first.code_object == second.code_object) << "code objects differ";
}

TEST_P(GpuCompilerContract, NamesTheUsersOwnLineAndColumn) {
  CompileRequest request =
      Of("// one\nextern \"C\" __global__ void k(int* p) {\n  *p = nothing;\n}\n", "k");
  const CompileResult result = Compile(request);
  EXPECT_FALSE(result.accepted);
  ASSERT_FALSE(result.diagnostics.empty()) << Said(result);
  const Diagnostic& first = result.diagnostics.front();
  EXPECT_EQ(first.file, "kernel.cu") << Said(result);
  EXPECT_EQ(first.line, 3);
  EXPECT_EQ(first.column, 8);
  EXPECT_EQ(first.severity, "error");
  EXPECT_NE(first.text.find("nothing"), std::string::npos) << first.text;
  EXPECT_EQ(result.log.find("/tmp"), std::string::npos) << Said(result);
}

TEST_P(GpuCompilerContract, FindsHeadersOfTheRequest) {
  CompileRequest request =
      Of("#include \"helpers.h\"\n#include \"sub/more.h\"\n"
         "extern \"C\" __global__ void k(int* p) { *p = one() + two(); }",
         "k");
  request.headers = {{"helpers.h", "__device__ inline int one() { return 1; }\n"},
                     {"sub/more.h", "__device__ inline int two() { return 2; }\n"}};
  const CompileResult good = Compile(request);
  EXPECT_TRUE(good.accepted) << Said(good);
  request.headers[1].second = "broken\n";
  const CompileResult result = Compile(request);
  EXPECT_FALSE(result.accepted);
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_NE(result.diagnostics.front().file.find("more.h"), std::string::npos)
      << result.diagnostics.front().file;
}

TEST_P(GpuCompilerContract, RejectsAnEntryThatIsNotThere) {
  const CompileResult result = Compile(Of(kPlain, "no_such_kernel"));
  EXPECT_FALSE(result.accepted);
  EXPECT_FALSE(result.diagnostics.empty());
}

TEST_P(GpuCompilerContract, RejectsOptionsOutsideTheList) {
  for (const char* option : {"-I/etc", "-include/etc/passwd", "-fplugin=x.so", "--save-temps",
                             "-mllvm", "@file", "--use_fast_math -I/etc", "-Xclang", "-DX\n=1"}) {
    CompileRequest request = Plain();
    request.options = {option};
    const CompileResult result = Compile(request);
    EXPECT_FALSE(result.accepted) << option;
    ASSERT_FALSE(result.diagnostics.empty());
    EXPECT_NE(result.diagnostics.front().text.find("not allowed"), std::string::npos);
  }
  CompileRequest request = Plain();
  request.options = {"--use_fast_math", "-std=c++20", "-DUNUSED=1"};
  EXPECT_TRUE(Compile(request).accepted);
}

TEST_P(GpuCompilerContract, ReadsNoFilesOfTheMachine) {
  for (const char* line : {"#include \"/etc/passwd\"", "#include \"../../../../etc/passwd\"",
                           "#define F \"/etc/passwd\"\n#include F",
                           "__device__ const unsigned char d[] = {\n#embed \"/etc/passwd\"\n};"}) {
    const CompileResult result = Compile(
        Of(std::string(line) + "\nextern \"C\" __global__ void k(int* p) { *p = 1; }", "k"));
    EXPECT_FALSE(result.accepted) << line;
    EXPECT_EQ(result.log.find("root:"), std::string::npos) << Said(result);
  }
}

TEST_P(GpuCompilerContract, SurvivesACompileBomb) {
  if (target_.name != "sm_90a" && target_.name != "gfx950") GTEST_SKIP() << "once per compiler";
  const std::string bomb =
      "template <int N, class T> struct B { using A = typename B<N - 1, B<N, T>>::A;"
      " using C = typename B<N - 1, B<N, B<N, T>>>::A; };\n"
      "template <class T> struct B<0, T> { using A = T; };\n"
      "extern \"C\" __global__ void k(int* p) { *p = sizeof(B<60, int>::A); }\n";
  const CompileResult bombed = Compile(Of(bomb, "k"));
  EXPECT_FALSE(bombed.accepted);
  EXPECT_FALSE(bombed.diagnostics.empty());
  EXPECT_TRUE(Compile(Plain()).accepted) << "the next compile must work";
}

TEST_P(GpuCompilerContract, SurvivesAFloodOfMacroOutput) {
  if (target_.name != "sm_90a" && target_.name != "gfx950") GTEST_SKIP() << "once per compiler";
  // A hundred million bytes of statements.
  const std::string flood =
      "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n"
      "extern \"C\" __global__ void k(int* p) { B(B(A(*p += 1;))) }\n";
  const CompileResult flooded = Compile(Of(flood, "k"));
  EXPECT_FALSE(flooded.accepted);
  EXPECT_FALSE(flooded.diagnostics.empty());
  EXPECT_TRUE(Compile(Plain()).accepted) << "the next compile must work";
}

TEST_P(GpuCompilerContract, ExplainsForeignCode) {
  const bool amd = target_.vendor == Vendor::kAmd;
  CompileRequest request =
      amd ? Of("extern \"C\" __global__ void k(int* p) {\n  asm(\"bar.sync 0;\");\n  *p = 1;\n}",
               "k")
          : Of("extern \"C\" __global__ void k(int* p) {\n  *p = __builtin_amdgcn_s_getpc();\n}",
               "k");
  if (!amd) request.dialect = Dialect::kHip;
  const CompileResult result = Compile(request);
  EXPECT_FALSE(result.accepted);
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.diagnostics.front().line, 2);
  EXPECT_NE(result.diagnostics.front().text.find("exists only for"), std::string::npos)
      << result.diagnostics.front().text;
}

TEST_P(GpuCompilerContract, CompilesTheHipDialectToo) {
  if (!headers_) GTEST_SKIP() << compiler_->identity() << " has no CUDA headers";
  CompileRequest request =
      Of("#include <hip/hip_runtime.h>\n#include <hip/hip_bf16.h>\n"
         "__global__ void k(const float* x, __hip_bfloat16* y, __half* z) {\n"
         "  float v = x[hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x];\n"
         "  for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_xor(v, o);\n"
         "  if (__ballot(v > 0) != 0) y[hipBlockIdx_x] = __float2bfloat16(v);\n"
         "  z[threadIdx.x] = __float2half(v);\n}\n",
         "k");
  request.dialect = Dialect::kHip;
  request.source_name = "kernel.hip";
  const CompileResult result = Compile(request);
  EXPECT_TRUE(result.accepted) << Said(result);
}

TEST_P(GpuCompilerContract, CompilesTheBundledTasksBaselines) {
  if (!headers_) GTEST_SKIP() << compiler_->identity() << " has no CUDA headers";
  namespace fs = std::filesystem;
  const fs::path tasks = fs::path(FETTLE_SOURCE_DIR) / "tasks" / "layernorm" / "kernel.cu";
  if (!fs::exists(tasks)) GTEST_SKIP() << "no tasks/layernorm/kernel.cu";
  CompileRequest request = Of(ReadText(tasks.string()), "layernorm_fwd<__half>");
  request.macros = {{"BLOCK", "256"}, {"ROWS", "1"}, {"VEC", "4"}};
  const CompileResult result = Compile(request);
  EXPECT_TRUE(result.accepted) << Said(result);
}

TEST_P(GpuCompilerContract, CompilesFromManyThreadsAtOnce) {
  std::vector<std::jthread> threads;
  std::array<bool, 4> accepted{};
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    threads.emplace_back([&, i] {
      CompileRequest request = Plain();
      request.macros[0].second = std::to_string(i) + ".5f";
      accepted[i] = Compile(request).accepted;
    });
  }
  threads.clear();
  for (const bool ok : accepted) EXPECT_TRUE(ok);
}

TEST_P(GpuCompilerContract, TellsBadRequestsFromBadSources) {
  EXPECT_TRUE(absl::IsInvalidArgument(compiler_->Compile(Of("", "k"), {}).status()));
  CompileRequest request = Plain();
  request.entries.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(compiler_->Compile(request, {}).status()));
  request = Plain();
  request.target = *FindTarget("cpu");
  EXPECT_TRUE(absl::IsInvalidArgument(compiler_->Compile(request, {}).status()));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(compiler_->Compile(Plain(), stop.get_token()).status()));
}

INSTANTIATE_TEST_SUITE_P(Backends, GpuCompilerContract,
                         ::testing::Values(Backend{"nvrtc", "sm_80"}, Backend{"nvrtc", "sm_90a"},
                                           Backend{"nvrtc", "sm_100a"}, Backend{"hiprtc", "gfx90a"},
                                           Backend{"hiprtc", "gfx942"}, Backend{"hiprtc", "gfx950"},
                                           Backend{"clang", "gfx90a"}, Backend{"clang", "gfx942"},
                                           Backend{"clang", "gfx950"}),
                         [](const auto& backend) {
                           return backend.param.compiler + "_" + backend.param.target;
                         });

// The library's own thread does not block SIGCHLD unless the server did before it was loaded; then
// the end of a compile goes unseen until its time is up.
TEST(Nvrtc, SeesCompilesEndThoughTheLibraryHasThreads) {
  GpuCompilersOptions options = Options();
  options.nvrtc_library = std::string(FETTLE_TEST_LIBRARIES) + "/libthreaded_nvrtc.so";
  options.wall_seconds = 100;
  const auto compiler = FindGpuCompilerFor(*FindTarget("sm_90a"), options);
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto start = std::chrono::steady_clock::now();
  const auto result = (*compiler)->Compile(
      {.target = *FindTarget("sm_90a"), .source = "__global__ void k() {}", .entries = {"k"}}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->accepted) << Said(*result);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Nvrtc, PrecompilesSlowHeadersOnceForAllCandidates) {
  GpuCompilersOptions options = Options();
  options.nvrtc_library = std::string(FETTLE_TEST_LIBRARIES) + "/libthreaded_nvrtc.so";
  const auto compiler = FindGpuCompilerFor(*FindTarget("sm_90a"), options);
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto compile = [&](const std::string& source, const std::string& block) {
    const auto result = (*compiler)->Compile({.target = *FindTarget("sm_90a"),
                                              .source_name = "k.cu",
                                              .source = source,
                                              .macros = {{"BLOCK", block}},
                                              .entries = {"k"}},
                                             {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->code_object : std::string();
  };
  const std::string slow =
      "// A comment.\n#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n"
      "__global__ void k() {}\n";
  for (const std::string block : {"64", "128"}) {
    const std::string code = compile(slow, block);
    EXPECT_TRUE(
        code.starts_with("#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n"
                         "#pragma nv_hdrstop\n"))
        << code;
    EXPECT_NE(code.find("#define BLOCK " + block + "\n"), std::string::npos) << code;
    EXPECT_NE(code.find("#line 1 \"k.cu\"\n" + slow), std::string::npos) << code;
    EXPECT_NE(code.find("// option --pch\n"), std::string::npos) << code;
    EXPECT_EQ(code.find("-DBLOCK"), std::string::npos) << code;
    EXPECT_NE(code.find("// precompiled before: 1\n"), std::string::npos) << code;
  }
  // A candidate's own header would be compiled in the server, and another's taken for it.
  const auto own = (*compiler)->Compile(
      {.target = *FindTarget("sm_90a"),
       .source = "#include <cooperative_groups.h>\n#include <mine.h>\n__global__ void k() {}\n",
       .headers = {{"mine.h", "#define MINE 1\n"}},
       .entries = {"k"}},
      {});
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->code_object.find("--pch"), std::string::npos) << own->code_object;
  // Not worth it, or not before everything else.
  for (const std::string& plain : {std::string("#include <cuda_fp16.h>\n__global__ void k() {}\n"),
                                   "#define X 1\n" + slow, "__device__ int i;\n" + slow}) {
    const std::string code = compile(plain, "64");
    EXPECT_TRUE(code.starts_with(plain)) << code;
    EXPECT_EQ(code.find("--pch"), std::string::npos) << code;
    EXPECT_NE(code.find("-DBLOCK=64"), std::string::npos) << code;
  }
}

// With the real library: the same code, the user's own lines, nothing of it in the log.
TEST(Nvrtc, PrecompiledHeadersChangeNothing) {
  GpuCompilerSearch& search = Found("nvrtc");
  if (search.compiler == nullptr) GTEST_SKIP() << search.status;
  RtcOptions plain_options;
  plain_options.program = Options().program;
  plain_options.precompile = false;
  const auto plain = MakeRtcCompiler(plain_options);
  if (!plain.ok()) GTEST_SKIP() << plain.status();
  CompileRequest request{.target = *FindTarget("sm_90a"),
                         .source_name = "k.cu",
                         .source =
                             "#include <cooperative_groups.h>\n"
                             "namespace cg = cooperative_groups;\n"
                             "extern \"C\" __global__ void k(int* p) {\n"
                             "  cg::this_thread_block().sync();\n"
                             "  p[cg::this_thread_block().thread_rank()] = BLOCK;\n}\n",
                         .macros = {{"BLOCK", "64"}},
                         .entries = {"k"}};
  const auto expected = (*plain)->Compile(request, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  if (!expected->accepted) GTEST_SKIP() << "no CUDA headers: " << expected->log;
  for (int i = 0; i < 2; ++i) {
    const auto result = search.compiler->Compile(request, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->accepted) << Said(*result);
    EXPECT_EQ(result->log, expected->log);
    EXPECT_TRUE(result->code_object == expected->code_object);
    std::printf("%s: %lld ms with precompiled headers, %lld ms without\n",
                search.compiler->identity().c_str(),
                static_cast<long long>(result->elapsed / std::chrono::milliseconds(1)),
                static_cast<long long>(expected->elapsed / std::chrono::milliseconds(1)));
  }
  request.source += "int x = nothing;\n";
  const auto wrong = search.compiler->Compile(request, {});
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  ASSERT_FALSE(wrong->accepted);
  ASSERT_FALSE(wrong->diagnostics.empty());
  EXPECT_EQ(wrong->diagnostics.front().file, "k.cu");
  EXPECT_EQ(wrong->diagnostics.front().line, 7);
}

TEST(Nvrtc, MakesPtxOnRequest) {
  GpuCompilerSearch& search = Found("nvrtc");
  if (search.compiler == nullptr) GTEST_SKIP() << search.status;
  const CompileRequest request{.target = *FindTarget("sm_90a"),
                               .source_name = "k.cu",
                               .source = "extern \"C\" __global__ void k(int* p) { *p = 1; }",
                               .entries = {"k"},
                               .options = {"--ptx"}};
  const auto result = search.compiler->Compile(request, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NE(result->code_object.find(".target sm_90a"), std::string::npos) << result->log;
}

TEST(RtcCompiler, SaysWhatIsMissing) {
  const auto none = MakeRtcCompiler({.program = "/nonexistent/fettle-compiled"});
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  const auto library = MakeRtcCompiler(
      {.library_files = {"/nonexistent/libnvrtc.so"}, .program = Options().program});
  EXPECT_TRUE(absl::IsUnavailable(library.status())) << library.status();
  EXPECT_NE(std::string(library.status().message()).find("libnvrtc"), std::string::npos);
}

TEST(ClangCompiler, SaysWhatIsMissing) {
  const auto none = MakeClangCompiler({.programs = {"/nonexistent/clang"}});
  EXPECT_TRUE(absl::IsUnavailable(none.status())) << none.status();
}

}  // namespace
}  // namespace fettle
