// SPDX-License-Identifier: Apache-2.0
#include "core/skeleton.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "core/reference_header.h"
#include "tests/core/sample_task.h"

namespace fettle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kSource[] = R"cu(// __global__ void commented(int a);
#include <cuda_fp16.h>
#define KERNEL __global__ void in_macro(int a)
#ifndef BLOCK
#define BLOCK 256
#endif
const char* text = "__global__ void quoted(int a)";
namespace ops {
template <typename T, int VEC = 4>
__global__ void __launch_bounds__(BLOCK, 2)
norm(const T* __restrict__ x, /* in */ const float* const gamma, T *y, const int64_t* idx,
     float* const* tables, int rows, int cols, float eps = 1e-5f) {
}
}
extern "C" __global__ void plain(float* out, Params p, unsigned char flags[], bool on) {}
__global__ void nothing(void) {}
)cu";

TEST(FindKernels, ReadsSignatures) {
  const auto kernels = FindKernels(kSource);
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].name, "norm");
  EXPECT_THAT(kernels[0].type_parameters, ElementsAre("T"));
  EXPECT_THAT(kernels[0].value_parameters, ElementsAre("VEC"));
  ASSERT_EQ(kernels[0].parameters.size(), 8u);
  EXPECT_EQ(kernels[0].parameters[0].type, "const T*");
  EXPECT_EQ(kernels[0].parameters[1].name, "gamma");
  EXPECT_TRUE(kernels[0].parameters[1].is_const);
  EXPECT_FALSE(kernels[0].parameters[2].is_const);
  EXPECT_EQ(kernels[0].parameters[4].pointers, 2);
  EXPECT_EQ(kernels[0].parameters[7].name, "eps");
  EXPECT_EQ(kernels[1].name, "plain");
  EXPECT_EQ(kernels[1].parameters[1].base, "Params");
  EXPECT_EQ(kernels[1].parameters[2].pointers, 1);
  EXPECT_TRUE(kernels[2].parameters.empty());
}

TEST(FindKernels, SurvivesCutOffSources) {
  const std::string source = kSource;
  for (std::size_t i = 0; i < source.size(); ++i) (void)FindKernels(source.substr(0, i));
  for (std::size_t i = 0; i < source.size(); ++i) (void)FindKernels(source.substr(i));
}

TEST(MakeSkeleton, GivesATaskThatParses) {
  for (const std::string kernel : {"norm", "plain", "ops::norm"}) {
    const auto files = MakeSkeleton({"kernel.cu", kSource, kernel});
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(ProblemsOf(*files), "") << files->at("task.yaml");
    EXPECT_THAT(files->at("task.yaml"), HasSubstr("FILL IN"));
  }
  const auto files = *MakeSkeleton({"kernel.cu", kSource, "norm"});
  EXPECT_THAT(files.at("task.yaml"), HasSubstr("kernel: \"norm<$T, VEC>\""));
  EXPECT_THAT(files.at("task.yaml"), HasSubstr("BLOCK: [128, 256, 512]"));
}

TEST(MakeSkeleton, NamesWhatIsMissing) {
  const auto unknown = MakeSkeleton({"kernel.cu", kSource, "nrom"});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("it has norm, plain, nothing"));
  EXPECT_EQ(MakeSkeleton({"a.cu", "int x;", "f"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MakeSkeleton({"kernel.cu", kSource, "nothing"}).status().message()),
              HasSubstr("nothing to check"));
}

// The generated reference and the header that ships with it, alone, in C++17.
TEST(MakeSkeleton, GivesAReferenceThatCompiles) {
  const auto files = *MakeSkeleton({"kernel.cu", kSource, "norm"});
  const fs::path folder = fs::temp_directory_path() / fmt::format("fettle_skeleton_{}", ::getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "reference.cc") << files.at("reference.cc");
  std::ofstream(folder / "fettle_reference.h") << ReferenceHeader();
  const std::string command =
      fmt::format("g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only {0}/reference.cc 2> {0}/log",
                  folder.string());
  EXPECT_EQ(std::system(command.c_str()), 0) << std::ifstream(folder / "log").rdbuf();
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace
}  // namespace fettle
