// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_names.h"

#include <gmock/gmock.h>

namespace fettle {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KernelNames, FindsPlainKernelsInOrder) {
  EXPECT_THAT(FindPlainKernels("__global__ void a(int n) {}\n"
                               "extern \"C\" __global__ void __launch_bounds__(256, 2) b(float* x);\n"
                               "__global__ void __attribute__((used)) c() { a(1); }\n"
                               "__global__ void a(int n);\n"),
              ElementsAre("a", "b", "c"));
}

TEST(KernelNames, LeavesOutTemplatesCommentsAndLiterals) {
  EXPECT_THAT(FindPlainKernels("template <typename T>\n__global__ void t(T* x) { if (x) {} }\n"
                               "// __global__ void no1() {}\n/* __global__ void no2() {} */\n"
                               "const char* s = \"__global__ void no3() {}\";\n"
                               "__device__ void helper() {}\n"),
              IsEmpty());
  EXPECT_THAT(FindPlainKernels("template <int N> struct S { int x; };\n__global__ void k() {}"),
              ElementsAre("k"));
}

TEST(KernelNames, SurvivesBrokenSources) {
  for (const char* source : {"", "__global__", "__global__ void", "__global__ void k", "\"", "/*",
                             "'\\", "__global__ void __launch_bounds__((("}) {
    EXPECT_THAT(FindPlainKernels(source), IsEmpty()) << source;
  }
}

}  // namespace
}  // namespace fettle
