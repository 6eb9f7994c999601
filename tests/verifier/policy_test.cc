// SPDX-License-Identifier: Apache-2.0
#include "verifier/policy.h"

#include <fstream>
#include <sstream>

#include "verifier/policy_tokens.h"

namespace fettle {
namespace {

std::string Reason(const std::string& source, PolicyRules rules = {}) {
  const auto found = CheckSourcePolicy("kernel.cu", source, {"helpers.h"}, rules);
  if (!found) return "";
  EXPECT_EQ(found->verdict, Verdict::kRefused);
  EXPECT_EQ(found->stage, Stage::kPolicy);
  return found->reason_code;
}

int Line(const std::string& source) {
  const auto found = CheckSourcePolicy("kernel.cu", source, {}, {});
  return found ? found->evidence["line"].get<int>() : 0;
}

TEST(PolicyTest, RefusesWhatReachesForFiles) {
  EXPECT_EQ(Reason("#include \"/etc/passwd\""), "policy_include");
  EXPECT_EQ(Reason("#include \"../secrets.h\""), "policy_include");
  EXPECT_EQ(Reason("#include <hip/../../x.h>"), "policy_include");
  EXPECT_EQ(Reason("#include <fstream>"), "policy_include");
  EXPECT_EQ(Reason("#define W \"/etc/passwd\"\n#include W"), "policy_include");
  EXPECT_EQ(Reason("#inc\\\nlude \"/etc/passwd\""), "policy_include");
  EXPECT_EQ(Reason("%:include \"/etc/passwd\""), "policy_include");
  EXPECT_EQ(Reason("# /* c */ include \"/etc/passwd\""), "policy_include");
  EXPECT_EQ(Reason("const char x[] = {\n#embed \"/etc/passwd\"\n};"), "policy_include");
  EXPECT_EQ(Reason("#include_next <math.h>"), "policy_include");
  EXPECT_EQ(Reason("#if __has_include(\"/etc/passwd\")\n#endif"), "policy_include");
  EXPECT_EQ(Reason("#include <cuda_fp16.h>\n#include \"helpers.h\"\n#include <hip/hip_runtime.h>"),
            "");
  EXPECT_EQ(Reason("#if __has_include(<cuda_fp8.h>)\n#include <cuda_fp8.h>\n#endif"), "");
}

TEST(PolicyTest, RefusesDirectiveAndPragmaTricks) {
  EXPECT_EQ(Reason("#line 7 \"other.cu\""), "policy_directive");
  EXPECT_EQ(Reason("#pragma GCC optimize(\"fast-math\")"), "policy_pragma");
  EXPECT_EQ(Reason("#pragma GCC dependency \"/etc/passwd\""), "policy_pragma");
  EXPECT_EQ(Reason("#pragma redefine_extname f system"), "policy_pragma");
  EXPECT_EQ(Reason("_Pragma(\"GCC target(\\\"avx2\\\")\") int x;"), "policy_pragma");
  EXPECT_EQ(Reason("#pragma unroll 4\n#pragma once\n#pragma GCC ivdep\n_Pragma(\"unroll\")"), "");
}

TEST(PolicyTest, RefusesAssemblyHoweverItIsSpelled) {
  EXPECT_EQ(Reason("void f() { asm(\"nop\"); }"), "policy_asm");
  EXPECT_EQ(Reason("void f() { __asm__ __volatile__(\"nop\"); }"), "policy_asm");
  EXPECT_EQ(Reason("#define G(a, b) a##b\n#define R G(as, m)\nvoid f() { R(\"nop\"); }"),
            "policy_asm");
  EXPECT_EQ(Reason("#define G(a, b) a##b\n#define X G\nvoid f() { X(as, m)(\"nop\"); }"),
            "policy_asm");
  EXPECT_EQ(
      Reason("#ifdef A\n#define R int\n#else\n#define R asm\n#endif\nvoid f() { R(\"nop\"); }"),
      "policy_asm");
  PolicyRules rules;
  rules.allow_asm = true;
  EXPECT_EQ(Reason("void f() { asm(\"nop\"); }", rules), "");
}

TEST(PolicyTest, RefusesHostCode) {
  EXPECT_EQ(Reason("extern \"C\" int system(const char*);"), "policy_host_code");
  EXPECT_EQ(
      Reason(
          "extern \"C\" {\n__global__ void k() {}\nint memcmp(const void*, const void*, int);\n}"),
      "policy_host_code");
  EXPECT_EQ(Reason("int main() { return 0; }"), "policy_host_code");
  // A host function that calls itself device code.
  EXPECT_EQ(Reason("extern \"C\" __device__ int sched_yield();\n"
                   "__global__ void k() { sched_yield(); }"),
            "policy_host_code");
  EXPECT_EQ(Reason("extern \"C\" {\n__device__ long syscall(long, ...);\n}"), "policy_host_code");
  EXPECT_EQ(Reason("namespace fettle { class Device; }"), "policy_builtin");
  EXPECT_EQ(Reason("__device__ unsigned long long t = fettle_rt_clock();"), "policy_builtin");
  EXPECT_EQ(Reason("void run() { k<<<1, 2>>>(); }"), "policy_host_code");
  EXPECT_EQ(Reason("__global__ void k() { ::system(\"true\"); }"), "policy_host_call");
  EXPECT_EQ(Reason("__global__ void k() { std::exit(1); }"), "policy_host_call");
  EXPECT_EQ(
      Reason(
          "#define RUN sys##tem\n#define J(a,b) a##b\n__global__ void k() { J(sys, tem)(\"x\"); }"),
      "policy_host_call");
  EXPECT_EQ(Reason("__global__ void k() { auto f = system; f(\"true\"); }"), "policy_host_call");
  EXPECT_EQ(Reason("__global__ void k() { __builtin_execl(\"/bin/sh\", \"sh\", 0); }"),
            "policy_builtin");
  EXPECT_EQ(Reason("__attribute__((constructor)) void f() {}"), "policy_attribute");
  EXPECT_EQ(Reason("[[gnu::constructor]] void f() {}"), "policy_attribute");
  EXPECT_EQ(Reason("__attribute__((__optimize__(\"fast-math\"))) void f() {}"), "policy_attribute");
}

TEST(PolicyTest, LetsHonestSourcesPass) {
  EXPECT_EQ(
      Reason("// asm volatile(\"nop\"); system(\"x\") <<<>>>\n/* #include \"/etc/passwd\" */"), "");
  EXPECT_EQ(Reason("__global__ void k() { printf(\"asm system #include \\\"/x\\\"\"); }"), "");
  EXPECT_EQ(Reason("const char* s = R\"x(\n#include \"/etc/passwd\"\nasm)x\";"), "");
  EXPECT_EQ(Reason("int plasma, systematic, streamed_tile, exec_count, main_loop, opened;"), "");
  EXPECT_EQ(Reason("__device__ float read(const float* p) { return *p; }\n"
                   "__global__ void k(float* p) { p[0] = read(p); }"),
            "");
  EXPECT_EQ(Reason("__global__ void k() { int open = 1, time = 2; open += time; }"), "");
  EXPECT_EQ(Reason("struct S { __device__ int open() { return 1; } };\n"
                   "__global__ void k() { S s; s.open(); }"),
            "");
  EXPECT_EQ(Reason("extern \"C\" __global__ void k(float* p) { p[0] = 1'000; }"), "");
  EXPECT_EQ(Reason("extern \"C\" {\n__global__ void k() {}\n__device__ int f() { return 1; }\n}"),
            "");
  EXPECT_EQ(Reason("extern \"C\" __global__ void __launch_bounds__(64) k(float*);\n"
                   "extern \"C\" __global__ void __launch_bounds__(64) k(float* p) { p[0] = 1; }"),
            "");
  EXPECT_EQ(Reason("extern \"C\" { typedef int (*visit)(int); struct pair { int a, b; }; }"), "");
  EXPECT_EQ(Reason("namespace mine { __device__ int fettle; }"), "");
  EXPECT_EQ(Reason("extern __shared__ float s[];"), "");
  EXPECT_EQ(Reason("template <typename T> struct A {}; A<A<A<int>>> a;"), "");
  EXPECT_EQ(
      Reason("__global__ void __launch_bounds__(256) k() {}\n[[nodiscard]] __device__ int f();"),
      "");
  EXPECT_EQ(Reason("struct __attribute__((aligned(16))) V { float x; };"), "");
}

TEST(PolicyTest, NamesTheLine) {
  EXPECT_EQ(Line("int a;\n\n#include \"/etc/passwd\"\n"), 3);
  EXPECT_EQ(Line("/* two\nlines */ int a; \\\n int b;\nvoid f() { asm(\"nop\"); }\n"), 4);
}

TEST(PolicyTest, ChecksOptionsByTarget) {
  KernelSpec kernel;
  kernel.source_name = "kernel.cu";
  const auto reason = [&kernel](std::string option, Vendor vendor) {
    PolicyRules rules;
    rules.vendor = vendor;
    rules.options = {std::move(option)};
    const auto found = CheckPolicy(kernel, rules);
    return found ? found->reason_code : "";
  };
  EXPECT_EQ(reason("-O3", Vendor::kCpu), "");
  EXPECT_EQ(reason("-DTILE=4", Vendor::kAmd), "");
  EXPECT_EQ(reason("--maxrregcount=64", Vendor::kNvidia), "");
  EXPECT_EQ(reason("--maxrregcount=64", Vendor::kCpu), "policy_option");
  for (const char* bad : {"-ffinite-math-only", "-I/etc", "-include", "-fplugin=x.so", "-Wl,-rpath",
                          "@file", "-D", "-D1=2", "--use_fast_math"}) {
    EXPECT_EQ(reason(bad, Vendor::kCpu), "policy_option") << bad;
  }
  PolicyRules rules;
  rules.options = rules.allowed_options = {"-ffast-math"};
  EXPECT_FALSE(CheckPolicy(kernel, rules));
}

TEST(PolicyTest, ChecksTheKernelsOwnHeaders) {
  KernelSpec kernel;
  kernel.source_name = "kernel.cu";
  kernel.source = "#include \"helpers.h\"\n";
  kernel.headers = {{"helpers.h", "#include \"/etc/passwd\"\n"}};
  const auto found = CheckPolicy(kernel, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->evidence["file"], "helpers.h");
}

// Every source of the bank, by the verdict it is to get.
TEST(PolicyTest, AgreesWithTheBank) {
  const std::string folder = FETTLE_SOURCE_DIR "/tests/cheats/";
  std::ifstream in(folder + "bank.json");
  const nlohmann::json bank = nlohmann::json::parse(in, nullptr, false);
  ASSERT_TRUE(bank.is_object());
  int refused = 0, passed = 0;
  for (const auto& entry : bank["entries"]) {
    const auto expect = entry["expect"].get<std::vector<std::string>>();
    std::ifstream file(folder + entry["kernel"].get<std::string>());
    ASSERT_TRUE(file) << entry["id"];
    std::ostringstream text;
    text << file.rdbuf();
    KernelSpec kernel;
    kernel.source_name = "kernel.cu";
    kernel.source = text.str();
    PolicyRules rules;
    if (entry.contains("block") && entry["block"].contains("options")) {
      rules.options = entry["block"]["options"].get<std::vector<std::string>>();
    }
    const auto found = CheckPolicy(kernel, rules);
    const bool may = std::find(expect.begin(), expect.end(), "REFUSED") != expect.end();
    const bool must = expect == std::vector<std::string>{"REFUSED"};
    EXPECT_TRUE(found || !must) << entry["id"];
    EXPECT_TRUE(!found || may) << entry["id"] << ": " << (found ? found->message : "");
    (found ? refused : passed) += 1;
  }
  EXPECT_GE(refused, 14);
  EXPECT_GE(passed, 60);
}

TEST(PolicyTest, MacroBombsEnd) {
  std::string source = "#define A0 x x\n";
  for (int i = 1; i < 40; ++i) {
    source += fmt::format("#define A{} A{} A{}\n", i, i - 1, i - 1);
  }
  EXPECT_TRUE(ExpandPolicy(source + "A39\n").expansion_cut);
  EXPECT_EQ(Reason("#define F(x) F(x) G(x)\n#define G(x) F(x)\nF(1)"), "");
}

}  // namespace
}  // namespace fettle
