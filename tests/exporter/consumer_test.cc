// SPDX-License-Identifier: Apache-2.0
// Programs of others that use an exported bundle: by CMake from a moved folder, with the objects
// linked in, and two versions at once.

#include "tests/exporter/consumer.h"

#include <filesystem>

#include "compiler/facts/code_facts.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kApp[] = R"text(
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;

template <class T>
static T* aligned(std::size_t count) { return static_cast<T*>(std::aligned_alloc(256, (count * sizeof(T) + 511) / 256 * 256)); }

// Runs one size and returns the choice; ends the program on a wrong sum.
template <class T>
static const char* run(ops::Operator& op, fettle::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t mode,
                       double scale, const char** kernel, int shift = 0) {
  T* x = aligned<T>(static_cast<std::size_t>(rows * cols) + 64) + shift;
  T* y = aligned<T>(static_cast<std::size_t>(rows) + 64);
  for (std::int64_t i = 0; i < rows * cols; ++i) x[i] = static_cast<T>(i % 7) - 3;
  ops::Types types;
  types.T = dtype;
  ops::Shape shape;
  shape.rows = rows;
  shape.cols = cols;
  shape.mode = mode;
  ops::Args args;
  args.x = x;
  args.y = y;
  args.scale = scale;
  const fettle::Result result = op(fettle::cpu(), types, shape, args);
  if (!result) {
    std::printf("failed: %s\n", result.message);
    std::exit(1);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += static_cast<double>(x[r * cols + c]);
    if (std::fabs(static_cast<double>(y[r]) - sum * scale * static_cast<double>(mode)) > 1e-3) {
      std::printf("wrong sum in row %ld\n", static_cast<long>(r));
      std::exit(1);
    }
  }
  *kernel = result.kernel;
  return result.status == fettle::Status::kNothingToDo ? "nothing" : fettle::choice_name(result.choice);
}

int main() {
  static ops::Operator op;
  const char* kernel = "";
  ops::Types types;
  ops::Shape shape;
  ops::Args args;
  std::printf("unprepared %d\n", static_cast<int>(op(fettle::cpu(), types, shape, args).status));
  const fettle::Result ready = op.prepare(fettle::Backend::kCpu);
  if (!ready) {
    std::printf("prepare: %s\n", ready.message);
    return 1;
  }
  const auto show = [&](const char* what, const char* choice) { std::printf("%s: %s %s\n", what, kernel, choice); };
  show("timed", run<float>(op, fettle::DType::f32, 512, 256, 1, 0.5, &kernel));
  show("wide", run<float>(op, fettle::DType::f32, 64, 1024, 1, 2, &kernel));
  show("near", run<float>(op, fettle::DType::f32, 400, 300, 1, 1, &kernel));
  show("odd", run<float>(op, fettle::DType::f32, 33, 101, 1, 1, &kernel));
  show("double", run<double>(op, fettle::DType::f64, 128, 128, 2, 2, &kernel));
  show("outside", run<float>(op, fettle::DType::f32, 1000, 1000, 1, 1, &kernel));
  show("misaligned", run<float>(op, fettle::DType::f32, 512, 256, 1, 0.5, &kernel, 1));
  show("empty", run<double>(op, fettle::DType::f64, 0, 8, 1, 0.5, &kernel));
  shape.rows = 1;
  shape.cols = 2000;
  shape.mode = 1;
  std::printf("illegal: %s\n", op(fettle::cpu(), types, shape, args).message);
  shape.cols = 1;
  std::printf("null: %s\n", op(fettle::cpu(), types, shape, args).message);
  float one[64] = {};
  const std::int64_t sizes[] = {2, 1}, strides[] = {1, 1};
  args.x = fettle::View<const void>(one, fettle::DType::f32, 2, sizes, strides);
  args.y = one + 32;
  std::printf("shape: %s\n", op(fettle::cpu(), types, shape, args).message);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 20; ++i) {
        const char* name = "";
        run<float>(op, fettle::DType::f32, 60 + i, 64, 1, 2, &name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const fettle::Statistics s = op.statistics();
  std::printf("exact %d fallback %d refused %d\n", static_cast<int>(s.exact), static_cast<int>(s.fallback), static_cast<int>(s.refused));
  std::fputs(op.misses().c_str(), stdout);
  op.unload();
  return 0;
}
)text";

constexpr char kProject[] = R"cmake(cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
find_package(fettle_row_sum 1.0 CONFIG REQUIRED)
add_executable(app main.cc)
target_link_libraries(app PRIVATE fettle::row_sum)
target_compile_options(app PRIVATE -fno-exceptions -fno-rtti -Wall -Wextra -Werror)
)cmake";

std::string Configure(const std::string& folder, const std::string& prefix,
                      const std::string& more) {
  return fmt::format(
      "cmake -G Ninja -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1} -DCMAKE_BUILD_TYPE=Release {2} "
      "&& cmake --build {0}/build",
      folder, prefix, more);
}

TEST(Consumer, BuildsByCmakeFromAMovedBundleAndCallsTheOperator) {
  const TestFolder folder;
  ASSERT_TRUE(WriteBundle(folder.path() + "/first", GuardBundle()).ok());
  fs::rename(folder.path() + "/first", folder.path() + "/moved here");
  folder.Write("CMakeLists.txt", kProject);
  folder.Write("main.cc", kApp);
  const CommandResult built =
      RunCommand(Configure(folder.path(), "'" + folder.path() + "/moved here'", ""));
  ASSERT_EQ(built.code, 0) << built.output;
  const CommandResult run = RunCommand(folder.path() + "/build/app");
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* line :
       {"unprepared 2", "timed: narrow exact", "wide: wide exact", "near: narrow bucket",
        "odd: wide generic", "double: narrow exact", "outside: baseline fallback",
        "misaligned: baseline fallback", "empty:  nothing",
        "illegal: cols: outside of the operator's domain", "null: x: null, though it has elements",
        "shape: a tensor has another shape than its dims say", "\"why\":\"outside_tested\""}) {
    EXPECT_NE(run.output.find(line), std::string::npos) << line << "\n" << run.output;
  }
  const CommandResult off = RunCommand("FETTLE_DISABLE=row_sum " + folder.path() + "/build/app");
  EXPECT_NE(off.output.find("timed: baseline fallback"), std::string::npos) << off.output;
  const CommandResult one =
      RunCommand("FETTLE_DISABLE=other,row_sum:narrow " + folder.path() + "/build/app");
  EXPECT_NE(one.output.find("timed: wide exact"), std::string::npos) << one.output;
  const CommandResult needs = RunCommand("ldd " + folder.path() + "/build/app");
  EXPECT_EQ(needs.output.find("cuda"), std::string::npos) << needs.output;
  EXPECT_EQ(needs.output.find("hip"), std::string::npos) << needs.output;
  // A changed object is not loaded.
  fs::resize_file(folder.path() + "/moved here/objects/cpu/narrow-0.so", 4096);
  const CommandResult damaged = RunCommand(folder.path() + "/build/app");
  EXPECT_NE(damaged.output.find("timed: wide exact"), std::string::npos) << damaged.output;
}

TEST(Consumer, LinksTheObjectsIn) {
  const TestFolder folder;
  ASSERT_TRUE(WriteBundle(folder.path() + "/bundle", GuardBundle()).ok());
  folder.Write("CMakeLists.txt", kProject);
  folder.Write("main.cc", kApp);
  const CommandResult built =
      RunCommand(Configure(folder.path(), folder.path() + "/bundle", "-DFETTLE_EMBED_OBJECTS=ON"));
  ASSERT_EQ(built.code, 0) << built.output;
  fs::remove_all(folder.path() + "/bundle");
  const CommandResult run = RunCommand(folder.path() + "/build/app");
  EXPECT_NE(run.output.find("timed: narrow exact"), std::string::npos) << run.output;
}

constexpr char kPrepare[] = R"text(
#include <cstdio>
#include <fettle_ops/row_sum.hpp>
int main() {
  for (const bool allow : {false, true}) {
    fettle_ops::row_sum::Operator op;
    op.allow_compiled_only(allow);
    const fettle::Result ready = op.prepare(fettle::Backend::kCuda);
    std::printf("%s: %s\n", allow ? "allowed" : "plain", ready ? "ready" : ready.message);
  }
}
)text";

TEST(Consumer, CompilesTheGpuObjectsFromSource) {
  const std::string nvcc = RunCommand("PATH=$PATH:/usr/local/cuda/bin command -v nvcc").output;
  if (nvcc.empty()) GTEST_SKIP() << "no nvcc here: it comes with CUDA's toolkit";
  const TestFolder folder;
  ASSERT_TRUE(WriteBundle(folder.path() + "/a bundle", GuardGpuBundle({"sm_90a"})).ok());
  folder.Write("CMakeLists.txt", kProject);
  folder.Write("main.cc", kPrepare);
  const CommandResult built = RunCommand(Configure(
      folder.path(), "'" + folder.path() + "/a bundle'", "-DFETTLE_BUILD_FROM_SOURCE=ON"));
  ASSERT_EQ(built.code, 0) << built.output;
  const CommandResult run = RunCommand(
      fmt::format("FETTLE_CUDA_LIBRARY={} {}/build/app", FETTLE_FAKE_GPU, folder.path()));
  // Other bytes than those that were tested serve only where that is allowed.
  EXPECT_NE(run.output.find("allowed: ready\n"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("plain: ready"), std::string::npos) << run.output;
  int cubins = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() + "/build")) {
    if (entry.path().extension() != ".cubin") continue;
    ++cubins;
    std::string name = fs::relative(entry.path(), folder.path()).string();
    const auto facts = ReadFacts(folder.Read(name), "sm_90a");
    ASSERT_TRUE(facts.ok()) << name << facts.status();
    ASSERT_EQ(facts->kernels.size(), 1u) << name;
    EXPECT_NE(facts->kernels[0].name.find("row_sum"), std::string::npos);
    EXPECT_EQ(facts->arch.substr(0, 5), "sm_90");
  }
  EXPECT_EQ(cubins, 4);  // Variant and baseline, each of two dtypes.
}

// Writes its arguments down and an object that is none.
constexpr char kFakeHipcc[] = R"sh(#!/bin/sh
out=
for argument in "$@"; do
  echo "$argument" >> "$0.log"
  [ "$last" = -o ] && out=$argument
  last=$argument
done
echo "made by $0" > "$out"
)sh";

// No machine of ours has hipcc: what it is asked for is all that is seen here.
TEST(Consumer, AsksHipccForCodeObjects) {
  const TestFolder folder;
  TaskFiles task = GuardTask();
  task["kernel.hip"] = task["kernel.cu"];
  task.erase("kernel.cu");
  std::string& yaml = task["task.yaml"];
  yaml.replace(yaml.find("kernel.cu"), 9, "kernel.hip");
  ASSERT_TRUE(WriteBundle(folder.path() + "/bundle", GuardGpuBundle({"gfx950"}, task)).ok());
  folder.Write("CMakeLists.txt", kProject);
  std::string program = kPrepare;
  program.replace(program.find("kCuda"), 5, "kHip");
  folder.Write("main.cc", program);
  folder.Write("hipcc", kFakeHipcc);
  fs::permissions(folder.path() + "/hipcc", fs::perms::owner_all);
  const CommandResult built = RunCommand(Configure(
      folder.path(), folder.path() + "/bundle",
      fmt::format("-DFETTLE_BUILD_FROM_SOURCE=ON -DFETTLE_HIPCC={}/hipcc", folder.path())));
  ASSERT_EQ(built.code, 0) << built.output;
  const std::string log = folder.Read("hipcc.log");
  for (const char* argument : {"--genco\n", "--offload-arch=gfx950\n", "-DFETTLE_TARGET_AMD=1\n",
                               "-DBLOCK=64\n", "-DBLOCK=32\n", ".hip\n"}) {
    EXPECT_NE(log.find(argument), std::string::npos) << argument << "\n" << log;
  }
  const CommandResult run =
      RunCommand(fmt::format("FETTLE_HIP_LIBRARY={} {}/build/app", FETTLE_FAKE_GPU, folder.path()));
  EXPECT_NE(run.output.find("allowed: ready\n"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("plain: ready"), std::string::npos) << run.output;
}

TEST(Consumer, SaysWhichCompilerBuildingFromSourceNeeds) {
  const TestFolder folder;
  ASSERT_TRUE(WriteBundle(folder.path() + "/bundle", GuardGpuBundle({"sm_90a"})).ok());
  folder.Write("CMakeLists.txt", kProject);
  folder.Write("main.cc", kPrepare);
  const auto configure = [&](const std::string& more) {
    return RunCommand("(" +
                      Configure(folder.path(), folder.path() + "/bundle",
                                "-DFETTLE_BUILD_FROM_SOURCE=ON " + more) +
                      ")");
  };
  const CommandResult missing = configure("-DFETTLE_NVCC=OFF");
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.output.find("row_sum needs nvcc"), std::string::npos) << missing.output;
  const CommandResult both = configure("-DFETTLE_EMBED_OBJECTS=ON");
  EXPECT_NE(both.code, 0);
  EXPECT_NE(both.output.find("exclude each other"), std::string::npos) << both.output;
}

TEST(Consumer, TwoVersionsInOneProgram) {
  const TestFolder folder;
  const BundleFiles old_bundle = GuardBundle();
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(MakeProvenance(
      blobs,
      {.id = "newer", .task = GuardTask(), .values = {{"BLOCK", 64}}, .ratios = {1.7, 1.7, 1.7}}))};
  BundleExtras extras;
  extras.version = "2.0.0";
  const auto new_bundle = BuildBundle(variants, blobs, extras);
  ASSERT_TRUE(new_bundle.ok()) << new_bundle.status();
  ASSERT_TRUE(WriteBundle(folder.path() + "/old", old_bundle).ok());
  ASSERT_TRUE(WriteBundle(folder.path() + "/new", *new_bundle).ok());
  const std::string first = ShortDigestOf(old_bundle), second = ShortDigestOf(*new_bundle);
  folder.Write("CMakeLists.txt", fmt::format(R"cmake(cmake_minimum_required(VERSION 3.16)
project(two LANGUAGES CXX)
find_package(Threads REQUIRED)
include("{0}/old/cmake/fettle_row_sumTargets.cmake")
include("{0}/new/cmake/fettle_row_sumTargets.cmake")
add_executable(app main.cc)
target_link_libraries(app PRIVATE fettle::row_sum-{1} fettle::row_sum-{2})
)cmake",
                                             folder.path(), first, second));
  folder.Write("main.cc", fmt::format(R"text(#include <cstdio>
#include <fettle_ops/row_sum/{0}.hpp>
#include <fettle_ops/row_sum/{1}.hpp>
template <class Ops> const char* kernel(Ops& op) {{
  typename Ops::Types types;
  typename Ops::Shape shape;
  shape.rows = 512;
  shape.cols = 256;
  shape.mode = 1;
  static float x[512 * 256 + 64], y[1024];
  typename Ops::Args args;
  args.x = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(x) + 255) / 256 * 256);
  args.y = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(y) + 255) / 256 * 256);
  args.scale = 0.5;
  op.prepare(fettle::Backend::kCpu);
  return op(fettle::cpu(), types, shape, args).kernel;
}}
int main() {{
  static fettle_ops::row_sum_{0}::Operator first;
  static fettle_ops::row_sum_{1}::Operator second;
  std::printf("%s %s\n", kernel(first), kernel(second));
}}
)text",
                                      first, second));
  const CommandResult built = RunCommand(Configure(folder.path(), folder.path(), ""));
  ASSERT_EQ(built.code, 0) << built.output;
  EXPECT_EQ(RunCommand(folder.path() + "/build/app").output, "narrow newer\n");
}

}  // namespace
}  // namespace fettle
