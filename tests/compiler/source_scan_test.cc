// SPDX-License-Identifier: Apache-2.0
#include "compiler/source_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/diagnostics.h"

namespace fettle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BlankNonCode, KeepsLengthAndLines) {
  const std::string source =
      "int a; // __syncthreads()\n/* x\n y */ char c = '\"'; const char* s = \"a\\\"b // c\";\n";
  const std::string blanked = BlankNonCode(source);
  EXPECT_EQ(blanked.size(), source.size());
  EXPECT_EQ(std::count(blanked.begin(), blanked.end(), '\n'), 3);
  EXPECT_THAT(blanked, Not(HasSubstr("__syncthreads")));
  EXPECT_THAT(blanked, HasSubstr("const char* s = \"         \";"));
}

TEST(BlankNonCode, KnowsRawStringsSplicesAndDigitSeparators) {
  EXPECT_EQ(BlankNonCode("auto r = R\"x(a)\" b)x\"; int y;"), "auto r = R\"         \"; int y;");
  EXPECT_EQ(BlankNonCode("// a \\\nb\nint c;"), "      \n \nint c;");
  EXPECT_EQ(BlankNonCode("int n = 1'000'000; char c = 'x';"), "int n = 1'000'000; char c = ' ';");
}

TEST(BlankNonCode, SurvivesAnyEnding) {
  for (const std::string source : {"/*", "\"", "'", "R\"(", "//", "\\", "a\"\\", "1'", "/* *"}) {
    EXPECT_EQ(BlankNonCode(source).size(), source.size()) << source;
  }
}

TEST(RewriteDynamicShared, DistinguishesFunctionAndFile) {
  EXPECT_EQ(RewriteDynamicShared("extern __shared__ float s[];\nvoid f() {}\n"),
            "FETTLE_DYNAMIC_SHARED_GLOBAL(s, float);\nvoid f() {}\n");
  EXPECT_EQ(RewriteDynamicShared("void f() {\n  extern __shared__ float s[];\n}"),
            "void f() {\n  FETTLE_DYNAMIC_SHARED_LOCAL(s, float);\n}");
  EXPECT_EQ(RewriteDynamicShared("namespace a { extern \"C\" { extern __shared__ int s[]; } }"),
            "namespace a { extern \"C\" { FETTLE_DYNAMIC_SHARED_GLOBAL(s, int); } }");
}

TEST(RewriteDynamicShared, TakesAttributesTypesAndLineBreaks) {
  EXPECT_EQ(RewriteDynamicShared("void f(){extern __shared__ __align__(16) unsigned char raw[];}"),
            "void f(){FETTLE_DYNAMIC_SHARED_LOCAL(raw, unsigned char);}");
  EXPECT_EQ(RewriteDynamicShared("void f(){__shared__ extern\n float\n s[ ];}"),
            "void f(){FETTLE_DYNAMIC_SHARED_LOCAL(s, float);\n\n}");
  EXPECT_EQ(RewriteDynamicShared("void f(){extern __shared__ float s[][16];}"),
            "void f(){FETTLE_DYNAMIC_SHARED_LOCAL(s, std::remove_pointer_t<float(*)[16]>);}");
  EXPECT_EQ(RewriteDynamicShared("void f(){extern __shared__ std::pair<int, float> s[];}"),
            "void f(){FETTLE_DYNAMIC_SHARED_LOCAL(s, std::pair<int, float>);}");
}

TEST(RewriteDynamicShared, LeavesTheRestAlone) {
  for (const std::string source :
       {"// extern __shared__ float s[];\n", "__shared__ float s[32];", "extern float x[];",
        "extern __shared__ float s[8];", "extern __shared__"}) {
    EXPECT_EQ(RewriteDynamicShared(source), source);
  }
}

TEST(NamesWait, SeesCodeOnly) {
  EXPECT_TRUE(NamesWait("__syncthreads();"));
  EXPECT_TRUE(NamesWait("v += __shfl_xor_sync(m, v, 1);"));
  EXPECT_TRUE(NamesWait("namespace cg = cooperative_groups;"));
  EXPECT_FALSE(NamesWait("// __syncthreads()\nint x__syncthreads;"));
  EXPECT_FALSE(NamesWait("atomicAdd(p, 1);"));
}

std::vector<std::string> Problems(const std::string& source) {
  std::vector<std::string> out;
  for (const Diagnostic& d : FindFileAccess(source, "k.cu")) {
    out.push_back(fmt::format("{}:{}: {}", d.file, d.line, d.text));
  }
  return out;
}

TEST(FindFileAccess, RefusesWhatReachesOtherFiles) {
  EXPECT_THAT(Problems("int a;\n#include \"/etc/passwd\"\n"),
              ElementsAre(HasSubstr("k.cu:2: include of the absolute path /etc/passwd")));
  EXPECT_THAT(Problems("#include \"../x.h\"\n#include <a/../b.h>\n").size(), 2u);
  EXPECT_THAT(Problems("# /* c */ include MACRO\n"), ElementsAre(HasSubstr("from a macro")));
  EXPECT_THAT(Problems("#embed \"secret\"\n"), ElementsAre(HasSubstr("#embed")));
  EXPECT_THAT(Problems("#inc\\\nlude \"/etc/passwd\"\n"), ElementsAre(HasSubstr("/etc/passwd")));
  EXPECT_THAT(Problems("%:include \"/etc/passwd\"\n"), ElementsAre(HasSubstr("/etc/passwd")));
  EXPECT_THAT(Problems("#pragma GCC dependency \"/etc/passwd\"\n"),
              ElementsAre(HasSubstr("pragma")));
}

TEST(FindFileAccess, AllowsHeaders) {
  EXPECT_THAT(Problems("#include <cuda_fp16.h>\n#include \"helpers.h\"\n// #include \"/x\"\n"
                       "#pragma unroll\n#define A \"/etc\"\n"),
              ElementsAre());
}

TEST(ParseGnuDiagnostics, ReadsPlacesAndSeverities) {
  const auto found = ParseGnuDiagnostics(
      "In file included from k.cu:1:\n"
      "k.cu:3:7: error: 'x' was not declared: try y\n"
      "    3 |   x = 1;\n"
      "my kernel.cu:9: warning: odd\n"
      "h.h:2:1: fatal error: no.h: No such file or directory\n"
      "k.cu:4:2: note: here\n"
      "cc1plus: error: unrecognized\n"
      "the user's note: not one\n");
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].file, "k.cu");
  EXPECT_EQ(found[0].line, 3);
  EXPECT_EQ(found[0].column, 7);
  EXPECT_EQ(found[0].text, "'x' was not declared: try y");
  EXPECT_EQ(found[1].file, "my kernel.cu");
  EXPECT_EQ(found[1].line, 9);
  EXPECT_EQ(found[2].severity, "error");
  EXPECT_EQ(found[3].severity, "note");
  EXPECT_EQ(found[4].file, "cc1plus");
}

TEST(CleanLog, ReplacesNamesAndCutsLongText) {
  EXPECT_EQ(CleanLog("/job/src/k.cu:1: \x1b[31mx\n", {{"/job/src/", ""}}), "k.cu:1: [31mx\n");
  const std::string cut = CleanLog(std::string(100000, 'x'), {});
  EXPECT_EQ(cut.size(), kMaxLogBytes);
  EXPECT_THAT(cut, HasSubstr("log cut here"));
}

}  // namespace
}  // namespace fettle
