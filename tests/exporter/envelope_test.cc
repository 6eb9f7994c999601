// SPDX-License-Identifier: Apache-2.0
// The volumes within a variant's envelope: calls of sizes that were each tested, but never
// together, go to the next variant or to the baseline, and what was tested passes.

#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

using nlohmann::json;

void ReplaceIn(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

// The guard task with other cases, and without the dim that would be a limit too.
TaskFiles WithCases(const std::string& timed, const std::string& checked) {
  TaskFiles task = GuardTask();
  std::string& yaml = task["task.yaml"];
  ReplaceIn(yaml, "  longer: {let: \"max(rows, cols)\"}\n", "");
  const std::size_t begin = yaml.find("  timed: "), end = yaml.find("  held_out:");
  yaml.replace(begin, end - begin, fmt::format("  timed: [{}]\n  checked: [{}]\n", timed, checked));
  return task;
}

struct Wanted {
  std::string id;
  int block = 64;
  std::vector<std::string> requirements;
  std::vector<double> ratios;
};

BundleFiles BundleOf(const TaskFiles& task, const std::vector<Wanted>& wanted) {
  FakeBlobs blobs;
  std::vector<VariantProvenance> variants;
  for (const Wanted& one : wanted) {
    variants.push_back(Parsed(MakeProvenance(blobs, {.id = one.id,
                                                     .task = task,
                                                     .values = {{"BLOCK", one.block}},
                                                     .requirements = one.requirements,
                                                     .ratios = one.ratios})));
  }
  std::vector<TaskProblem> problems;
  const auto parsed = Task::Parse(task, &problems);
  EXPECT_TRUE(parsed.ok()) << FormatProblems(problems);
  if (!parsed.ok()) return {};
  auto files = BuildBundle(variants, blobs, SampleExtras(**parsed));
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : BundleFiles();
}

json EnvelopesOf(const BundleFiles& bundle, std::size_t variant) {
  return json::parse(bundle.at("manifest.json"))["variants"][variant]["guards"]["envelopes"];
}

std::string Output(const BundleFiles& bundle, const char* program) {
  if (bundle.empty()) return "";
  const TestFolder folder;
  const std::string at = folder.path() + "/bundle";
  EXPECT_TRUE(WriteBundle(at, bundle).ok());
  const CommandResult run = RunCommand(CompileConsumer(folder, program, bundle, at, ""));
  EXPECT_EQ(run.code, 0) << run.output;
  return run.output;
}

constexpr char kCornerProgram[] = R"text(
#include <cinttypes>
#include <cstdio>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
alignas(256) static float x[512 * 512], y[512];
int main() {
  static ops::Operator op;
  if (const fettle::Result ready = op.prepare(fettle::Backend::kCpu); !ready) std::printf("prepare: %s\n", ready.message);
  for (float& value : x) value = 1;
  const std::int64_t sizes[][2] = {{16, 512}, {512, 16}, {256, 256}, {16, 400}, {32, 384}, {512, 128}, {512, 512}};
  for (const auto& size : sizes) {
    ops::Types types;
    ops::Shape shape;
    shape.rows = size[0];
    shape.cols = size[1];
    shape.mode = 1;
    ops::Args args;
    args.x = x;
    args.y = y;
    args.scale = 0.5;
    y[shape.rows - 1] = -1;
    const fettle::Result r = op(fettle::cpu(), types, shape, args);
    std::printf("%" PRId64 "x%" PRId64 ": %d %s %s %s, right %d\n", size[0], size[1], static_cast<int>(r.status), r.kernel,
                fettle::choice_name(r.choice), fettle::why_name(r.why),
                y[shape.rows - 1] == static_cast<float>(shape.cols) / 2 ? 1 : 0);
  }
  std::printf("%s", op.misses().c_str());
  return 0;
}
)text";

TEST(Envelopes, CornersThatWereNeverTestedGoToTheNextVariantOrTheBaseline) {
  const TaskFiles task = WithCases(
      "{T: f32, rows: 512, cols: 16, mode: 1, scale: 0.5}, {T: f32, rows: 16, cols: 512, mode: 1, "
      "scale: 0.5}, {T: f32, rows: 256, cols: 256, mode: 1, scale: 0.5}",
      "{T: f32, rows: 1, cols: 1, mode: 1, scale: 0.5}");
  const BundleFiles bundle = BundleOf(
      task, {{"narrow", 64, {"rows != cols"}, {1.5, 1.5}}, {"wide", 128, {}, {1.2, 1.2, 1.6}}});
  ASSERT_FALSE(bundle.empty());
  EXPECT_EQ(EnvelopesOf(bundle, 0)[0].value("elements", json()), (json{{"x", 8192}, {"y", 512}}));
  EXPECT_EQ(EnvelopesOf(bundle, 1)[0].value("elements", json()), (json{{"x", 65536}, {"y", 512}}));
  const std::string output = Output(bundle, kCornerProgram);
  for (const char* line :
       {// What was tested, and less than that.
        "16x512: 0 narrow exact , right 1\n", "512x16: 0 narrow exact , right 1\n",
        "256x256: 0 wide exact , right 1\n", "16x400: 0 narrow bucket , right 1\n",
        // Above the first variant's volume, within and at the second one's; above both.
        "32x384: 0 wide bucket outside_tested, right 1\n", "512x128: 0 wide ",
        "512x512: 0 baseline fallback outside_tested, right 1\n",
        "\"rows\":512,\"cols\":512,\"mode\":1},\"choice\":\"fallback\",\"why\":\"outside_tested\","
        "\"kernel\":\"baseline\""}) {
    EXPECT_NE(output.find(line), std::string::npos) << line << "\n" << output;
  }
}

constexpr char kVastProgram[] = R"text(
#include <cstdio>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
int main() {
  static ops::Operator op;
  const std::int64_t vast = std::int64_t{1} << 34;
  const std::int64_t sizes[][2] = {{vast, 1}, {1, vast}, {vast, vast}, {vast, 2}};
  for (const auto& size : sizes) {
    ops::Types types;
    ops::Shape shape;
    shape.rows = size[0];
    shape.cols = size[1];
    shape.mode = 1;
    ops::Args args;
    args.scale = 0.5;
    const fettle::Decision d = op.choose("cpu", types, shape, args);
    std::printf("%s %s;", ops::Operator::kernel_id(d.kernel), fettle::why_name(d.why));
  }
  return 0;
}
)text";

// 2^34 times 2^34 is zero in 64 bits.
TEST(Envelopes, AVolumeBeyond64BitsIsAboveEveryLimit) {
  TaskFiles task = WithCases(
      "{T: f32, rows: 17179869184, cols: 1, mode: 1, scale: 0.5}",
      "{T: f32, rows: 1, cols: 17179869184, mode: 1, scale: 0.5}, {T: f32, rows: 1, cols: 1, "
      "mode: 1, scale: 0.5}");
  std::string& yaml = task["task.yaml"];
  ReplaceIn(yaml, "rows: {min: 0, max: 4096}", "rows: {min: 0, max: 2^40}");
  ReplaceIn(yaml, "cols: {min: 1, max: 1024}", "cols: {min: 1, max: 2^40}");
  ReplaceIn(yaml, "valid: [\"rows * cols <= 2^20\"]\n", "");
  ReplaceIn(yaml, "rows: {role: scalar, dtype: i32", "rows: {role: scalar, dtype: i64");
  ReplaceIn(yaml, "cols: {role: scalar, dtype: i32", "cols: {role: scalar, dtype: i64");
  ReplaceIn(yaml, "grid: [rows]", "grid: [1]");
  ReplaceIn(task["kernel.cu"], "int rows, int cols", "long long rows, long long cols");
  const BundleFiles bundle = BundleOf(task, {{"vast", 64, {}, {1.5}}});
  ASSERT_FALSE(bundle.empty());
  EXPECT_EQ(Output(bundle, kVastProgram),
            "vast ;vast ;baseline outside_tested;baseline outside_tested;");
}

constexpr char kJaggedYaml[] = R"yaml(format: 1
name: jagged_gain
summary: Scales the rows of several matrices.
license: Apache-2.0
dims:
  members: {min: 1, max: 64}
  rows: {min: 0, max: 4096}
  widths: {list: members, min: 1, max: 1024}
  weighted: {in: [0, 1]}
args:
  - in: {role: pointers, count: members, each: {role: in, dtype: f32, shape: [rows, "widths[g]"], fill: {normal: [0, 1]}}}
  - rows_of: {role: pointers, count: members, each: {role: in, dtype: f32, shape: [rows], fill: {normal: [0, 1]}}}
  - gain: {role: in, dtype: f32, shape: [rows], fill: {normal: [0, 1]}, optional: weighted}
  - widths_of: {role: in, dtype: i32, shape: [members], fill: {list: widths}}
  - out: {role: pointers, count: members, each: {role: out, dtype: f32, shape: [rows, "widths[g]"]}}
  - rows: {role: scalar, dtype: i32, value: rows}
baseline:
  source: kernel.cu
  tunables: {BLOCK: [32, 64, 128]}
  values: {BLOCK: 32}
  launches:
    - {kernel: jagged_gain, grid: [members], block: [BLOCK], args: [in, rows_of, gain, widths_of, out, rows]}
reference: {source: reference.cc, function: jagged_gain_ref}
cases:
  timed: [{members: 4, rows: 64, widths: 32, weighted: 0}, {members: 2, rows: 16, widths: [200, 28], weighted: 1}]
  checked: [{members: 1, rows: 1, widths: 1, weighted: 1}, {members: 1, rows: 100, widths: 1, weighted: 0}]
  held_out: 1
tolerance: {out: {rtol: 1.0e-6, atol: 1.0e-6}}
work: {bytes: "8*rows*sum(widths)", flops: "rows*sum(widths)"}
)yaml";

constexpr char kJaggedKernel[] =
    R"(extern "C" __global__ void jagged_gain(const float* const* in, const float* const* rows_of, const float* gain,
                                       const int* widths, float* const* out, int rows) {
  const int g = blockIdx.x;
  for (int i = threadIdx.x; i < rows * widths[g]; i += BLOCK)
    out[g][i] = in[g][i] * rows_of[g][i / widths[g]] * (gain != nullptr ? gain[i / widths[g]] : 1.0f);
}
)";

constexpr char kJaggedReference[] = R"(#include <fettle_reference.h>
extern "C" void jagged_gain_ref(fettle_ref* ref) { (void)ref; }
)";

constexpr char kJaggedProgram[] = R"text(
#include <cstdio>
#include <fettle_ops/jagged_gain.hpp>
namespace ops = fettle_ops::jagged_gain;
static ops::Operator op;
static void ask(const char* what, std::int64_t rows, std::int64_t weighted, const std::int64_t* widths, std::int64_t count) {
  ops::Shape shape;
  shape.members = count;
  shape.rows = rows;
  shape.weighted = weighted;
  shape.widths = {widths, count};
  const fettle::Decision d = op.choose("cpu", ops::Types(), shape, ops::Args());
  std::printf("%s: %s %s\n", what, ops::Operator::kernel_id(d.kernel), fettle::why_name(d.why));
}
int main() {
  const std::int64_t even[] = {32, 32, 32, 32}, uneven[] = {200, 28}, one[] = {1}, ones[] = {1, 1, 1, 1}, odd[] = {32, 32, 32, 33};
  const std::int64_t large[] = {128}, flat[] = {100, 100, 100, 200};
  ask("tested without gain", 64, 0, even, 4);
  ask("tested with gain", 16, 1, uneven, 2);
  ask("smallest", 1, 1, one, 1);
  ask("tested rows of one", 100, 0, one, 1);
  ask("those rows of four", 100, 0, ones, 4);
  ask("more gain than tested", 17, 1, uneven, 1);
  ask("more in all", 64, 0, odd, 4);
  ask("one too large a member", 64, 0, large, 1);
  ask("another split", 16, 0, flat, 4);
  return 0;
}
)text";

// Elements of an array are those of all its members; the largest member has a limit of its own. A
// null argument has none.
TEST(Envelopes, ArraysCountAllMembersAndTheLargestOne) {
  const BundleFiles bundle = BundleOf({{"task.yaml", kJaggedYaml},
                                       {"kernel.cu", kJaggedKernel},
                                       {"reference.cc", kJaggedReference}},
                                      {{"v1", 64, {}, {1.5, 1.5}}});
  ASSERT_FALSE(bundle.empty());
  const json envelope = EnvelopesOf(bundle, 0)[0];
  EXPECT_EQ(envelope.value("elements", json()),
            (json{{"in", 8192}, {"out", 8192}, {"gain", 16}, {"rows_of", 256}, {"widths_of", 4}}));
  EXPECT_EQ(envelope.value("member_elements", json()),
            (json{{"in", 3200}, {"out", 3200}, {"rows_of", 100}}));
  EXPECT_EQ(Output(bundle, kJaggedProgram),
            "tested without gain: v1 \ntested with gain: v1 \nsmallest: v1 \n"
            "tested rows of one: v1 \nthose rows of four: baseline outside_tested\n"
            "more gain than tested: baseline outside_tested\n"
            "more in all: baseline outside_tested\n"
            "one too large a member: baseline outside_tested\nanother split: v1 \n");
}

}  // namespace
}  // namespace fettle
