// SPDX-License-Identifier: Apache-2.0
// What a host program can rely on beside the choice of a kernel: workspace, callbacks, aliasing,
// and that a call allocates nothing.

#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

void Replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

// The guard task with a workspace that grows with BLOCK: the variant needs more than the baseline.
BundleFiles WorkspaceBundle() {
  TaskFiles task = GuardTask();
  Replace(task["task.yaml"], "  launches:\n",
          "  workspace:\n    - part: {dtype: f32, shape: [rows, BLOCK], init: undefined}\n"
          "  launches:\n");
  Replace(task["task.yaml"], "mode, scale]}", "mode, scale, part]}");
  Replace(task["kernel.cu"], "float scale) {", "float scale, float* used) {");
  Replace(task["kernel.cu"], "__shared__ T part[BLOCK];",
          "__shared__ T part[BLOCK];\n  used[blockIdx.x * BLOCK + threadIdx.x] = 1;");
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(MakeProvenance(
      blobs, {.id = "wide", .task = task, .values = {{"BLOCK", 128}}, .ratios = {1.5, 1.5, 1.5}}))};
  std::vector<TaskProblem> problems;
  const auto parsed = Task::Parse(task, &problems);
  EXPECT_TRUE(parsed.ok()) << FormatProblems(problems);
  if (!parsed.ok()) return {};
  auto files = BuildBundle(variants, blobs, SampleExtras(**parsed));
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : BundleFiles();
}

constexpr char kCpuProgram[] = R"text(
#include <cstdio>
#include <cstring>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
alignas(256) static float x[512 * 256], y[512], space[512 * 128];

int main() {
  static ops::Operator op;
  ops::Types types;
  ops::Shape shape;
  shape.rows = 512;
  shape.cols = 256;
  shape.mode = 1;
  ops::Args args;
  args.x = x;
  args.y = y;
  args.scale = 0.5;
  if (const fettle::Result ready = op.prepare(fettle::Backend::kCpu); !ready) std::printf("prepare: %s\n", ready.message);
  const auto bytes = [&] { return op.workspace_bytes(fettle::Backend::kCpu, types, shape, args); };
  std::printf("any scalars %zu\n", op.workspace_bytes(fettle::Backend::kCpu, types, shape));
  std::printf("these scalars %zu\n", bytes());
  args.scale = 7;
  std::printf("other scalars %zu\n", bytes());
  args.scale = 0.5;
  std::printf("misses '%s'\n", op.misses().c_str());
  const auto call = [&](const char* what, std::size_t size) {
    fettle::Workspace workspace;
    workspace.data = space;
    workspace.bytes = size;
    const fettle::Result r = op(fettle::cpu(), types, shape, args, workspace);
    std::printf("%s: %d %s %s %s\n", what, static_cast<int>(r.status), r.kernel, fettle::choice_name(r.choice), fettle::why_name(r.why));
  };
  call("enough", bytes());
  call("too small", bytes() - 1);
  args.y = x + 64;  // Aligned, and within x.
  call("aliased", sizeof space);
  args.y = y;
  static int asked = 0, taken = 0;
  op.set_disabled([](void* user, const char* name, const char* kernel) {
    ++*static_cast<int*>(user);
    return std::strcmp(name, "row_sum") == 0 && std::strcmp(kernel, "wide") == 0;
  }, &asked);
  call("flag", sizeof space);
  std::printf("asked %d\n", asked > 0 ? 1 : 0);
  op.set_fallback([](void* user, fettle::Stream, const ops::Types&, const ops::Shape& given, const ops::Args&) {
    *static_cast<int*>(user) = static_cast<int>(given.rows);
    return fettle::Status::kOk;
  }, &taken);
  call("callback", sizeof space);
  std::printf("taken %d\n", taken);
  op.set_disabled(nullptr, nullptr);
  call("back", sizeof space);
  return 0;
}
)text";

TEST(Calls, WorkspaceServesWhicheverKernelIsChosenAndAliasesGoToTheBaseline) {
  const BundleFiles bundle = WorkspaceBundle();
  ASSERT_FALSE(bundle.empty());
  const TestFolder folder;
  const std::string at = folder.path() + "/bundle";
  ASSERT_TRUE(WriteBundle(at, bundle).ok());
  const std::string program = CompileConsumer(folder, kCpuProgram, bundle, at, "");
  const CommandResult run = RunCommand(program);
  EXPECT_EQ(run.code, 0) << run.output;
  // 512 rows of 128 and of 32 floats.
  for (const char* line :
       {"any scalars 262144\n", "these scalars 262144\n", "other scalars 65536\n", "misses ''\n",
        "enough: 0 wide exact \n", "too small: 6 wide exact \n",
        "aliased: 0 baseline fallback aliased\n", "flag: 0 baseline fallback disabled\n",
        "asked 1\n", "callback: 0 callback fallback disabled\n", "taken 512\n",
        "back: 0 wide exact \n"}) {
    EXPECT_NE(run.output.find(line), std::string::npos) << line << "\n" << run.output;
  }
  const CommandResult all = RunCommand("FETTLE_DISABLE='*' " + program);
  EXPECT_NE(all.output.find("enough: 0 baseline fallback disabled\n"), std::string::npos)
      << all.output;
}

constexpr char kCountingProgram[] = R"text(
#include <cstdio>
#include <cstdlib>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
static bool counting = false;
static long counted = 0;
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) {
  if (counting) ++counted;
  return __libc_malloc(size);
}
alignas(256) static float x[512 * 256], y[512];

int main() {
  static ops::Operator op;
  op.allow_compiled_only(true);
  if (!op.prepare(fettle::Backend::kCuda)) return 2;
  ops::Types types;
  ops::Shape shape;
  shape.mode = 1;
  ops::Args args;
  args.x = x;
  args.y = y;
  args.scale = 0.5;
  int bad = 0;
  counting = true;
  for (int i = 0; i < 3000; ++i) {  // More sizes than decisions are remembered.
    shape.rows = 1 + i % 512;
    shape.cols = 4 * (1 + i % 61);
    if (op.workspace_bytes(fettle::Backend::kCuda, types, shape, args) != 0) ++bad;
    if (!op(fettle::cuda(nullptr), types, shape, args)) ++bad;
    if (op(fettle::cuda(nullptr), types, ops::Shape(), args)) ++bad;  // Refused.
  }
  counting = false;
  std::printf("bad %d allocations %ld\n", bad, counted);
  counting = true;
  std::free(std::malloc(100));  // It does count.
  std::printf("then %ld\n", counted);
}
)text";

TEST(Calls, AllocateNothing) {
  const BundleFiles bundle = GuardGpuBundle({"sm_90a"});
  ASSERT_FALSE(bundle.empty());
  const TestFolder folder;
  const std::string at = folder.path() + "/bundle";
  ASSERT_TRUE(WriteBundle(at, bundle).ok());
  const std::string program =
      CompileConsumer(folder, kCountingProgram, bundle, at, "-fno-builtin-malloc");
  const CommandResult run =
      RunCommand(fmt::format("FETTLE_CUDA_LIBRARY={} {}", FETTLE_FAKE_GPU, program));
  EXPECT_EQ(run.output, "bad 0 allocations 0\nthen 1\n");
}

}  // namespace
}  // namespace fettle
