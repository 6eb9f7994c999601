// SPDX-License-Identifier: Apache-2.0
// Every mistake is reported with its place and a remedy.

#include <random>

#include "core/task.h"
#include "tests/core/sample_task.h"

namespace fettle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Mistake {
  std::string from, to;  // An edit of the example.
  std::string expected;  // The first line of the problems, in full.
};

TEST(TaskProblems, NameTheirPlaceAndARemedy) {
  const Mistake mistakes[] = {
      {"reference: {source", "referenze: {source",
       "task.yaml:1:1: reference is missing; name the double-precision reference, such as "
       "'reference: {source: reference.cc, function: layernorm_ref}'"},
      {"format: 1", "format: 2",
       "task.yaml:1:9: format 2 is not known to this fettle; it reads format 1"},
      {"[f16, bf16, f32]", "[f16, bf17, f32]",
       "task.yaml:5:18: types.T: unknown dtype 'bf17'; did you mean 'bf16'?"},
      {"dtype: f32, value", "dtype: float, value",
       "task.yaml:17:34: args.eps.dtype: unknown dtype 'float'; known: bf16, bool, f16, f32, "
       "f4e2m1x2, "
       "f64, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, i16, i32, i64, i8, u8"},
      {"shape: [rows, cols], fill", "shape: [rows, colz], fill",
       "task.yaml:11:49: args.x.shape[1]: 'colz' is not one of the dims that may stand here; did "
       "you "
       "mean 'cols'?"},
      {"shape: [rows, cols], fill", "shape: [rows, \"cols +\"], fill",
       "task.yaml:11:56: args.x.shape[1]: column 7 of 'cols +': expected a number, a name or '(', "
       "found the end"},
      {"role: out,", "roll: out,",
       "task.yaml:14:12: args.y.role is missing; one of in, out, inout, index, scalar, pointers, "
       "none"},
      {"source: kernel.cu", "source: kernel.cuu",
       "task.yaml:19:11: baseline.source: the task folder has no file 'kernel.cuu'; did you mean "
       "'kernel.cu'?"},
      {"values: {BLOCK: 256}", "values: {BLOCK: 257}",
       "task.yaml:21:11: baseline.values.BLOCK: 257 is not among the tunable's values"},
      {"$T>", "$U>",
       "task.yaml:25:16: baseline.launches[0].kernel: there is no type '$U' under 'types'; did you "
       "mean "
       "'T'?"},
      {"args: [x, gamma", "args: [xx, gamma",
       "task.yaml:25:85: baseline.launches[0].args[0]: 'xx' is no argument, workspace or dim; did "
       "you "
       "mean 'x'?; a computed value is written {value: EXPRESSION, dtype: i32}"},
      {"{T: f32, rows: 1, cols: 1}", "{T: f32, rows: 1}",
       "task.yaml:29:13: cases.checked[0] does not give the dim 'cols'; add 'cols: ...'"},
      {"{T: f32, rows: 1, cols: 1}", "{T: f32, rows: 1, cols: 0}",
       "task.yaml:29:13: cases.checked[0]: dims.cols: 0 is outside its domain, 1 to 65536"},
      {"{T: f32, rows: 1, cols: 1}", "{T: f32, rows: 1, cols: 1, bs: 3}",
       "task.yaml:29:40: unknown field 'bs'; known: T, beta, cols, eps, for, gamma, rows, weight, "
       "x, y"},
      {"rows: 16384, cols: 4096", "rows: 1048576, cols: 65536",
       "task.yaml:28:13: cases.timed[0]: valid: 'rows*cols <= 2^31' does not hold"},
      {"tolerance: {y:", "tolerance: {z:",
       "task.yaml:31:13: there is no output 'z'; did you mean 'y'?"},
      {"{auto: {reduce: cols, inner: f32}}", "{auto: {reduce: cols, iner: f32}}",
       "task.yaml:31:38: unknown field 'iner'; did you mean 'inner'?"},
      {"license: Apache-2.0", "license: A\nlicense: B",
       "task.yaml:5:1: 'license' stands here twice, first in line 4; keep one"},
      {"grid: [rows]", "grid: [0]",
       "task.yaml:28:13: the baseline launches no kernel for cases.timed[0], where the grid of "
       "each is 0 (or `when` is); correct the grid or leave the case out"},
      {"grid: [rows]", "grid: [rows / 7]",
       "task.yaml:28:13: the baseline's plan fails for cases.timed[0]: launches[0].grid[0]: "
       "evaluate "
       "'rows / 7' with rows = 16384: 16384 / 7 is not exact; use ceil_div(rows, 7)"},
      {"grid: [rows]", "grid: [\"rows / (cols - cols)\"]",
       "task.yaml:28:13: the baseline's plan fails for cases.timed[0]: launches[0].grid[0]: "
       "evaluate "
       "'rows / (cols - cols)' with cols = 4096, rows = 16384: division by zero"},
      {"flops: \"8*rows*cols\"", "flops: \"2^62*rows*cols\"",
       "task.yaml:28:13: cases.timed[0]: work.flops: evaluate '2^62*rows*cols' with cols = 4096, "
       "rows = "
       "16384: multiplication overflows 64 bits"},
      {"dims:\n", "dims: &a\n",
       "task.yaml:6:7: anchors and aliases are not part of the format; write the "
       "value out"},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string problems = ProblemsOf(Edited(mistake.from, mistake.to));
    EXPECT_EQ(problems.substr(0, problems.find('\n')), mistake.expected) << problems;
  }
}

TEST(TaskProblems, AreReportedTogether) {
  TaskFiles files = Edited("bf16, f32]", "bf17, f32]");
  std::string& text = files["task.yaml"];
  text.replace(text.find("held_out"), 8, "heldout");
  text.replace(text.find("source: kernel.cu"), 17, "source: kernel.c");
  const std::string problems = ProblemsOf(files);
  EXPECT_THAT(problems, AllOf(HasSubstr("bf17"), HasSubstr("did you mean 'held_out'?"),
                              HasSubstr("no file 'kernel.c'")));
}

TEST(TaskProblems, CoverWhatAFolderLacks) {
  EXPECT_THAT(ProblemsOf({}), HasSubstr("has no file 'task.yaml'"));
  EXPECT_THAT(ProblemsOf({{"task.yaml", ""}}), HasSubstr("the file is empty"));
  EXPECT_THAT(ProblemsOf({{"task.yaml", "a: [1,"}}), HasSubstr("no valid YAML"));
  EXPECT_THAT(ProblemsOf({{"task.yaml", "- 1\n"}}),
              HasSubstr("must be a map of fields, not a list"));
  EXPECT_THAT(ProblemsOf({{"task.yaml", std::string(2000000, ' ')}}), HasSubstr("at most"));
  TaskFiles without = LayernormFiles();
  without.erase("reference.cc");
  EXPECT_THAT(ProblemsOf(without),
              HasSubstr("task.yaml:26:21: reference.source: the task folder has no "
                        "file 'reference.cc'"));
}

TEST(TaskProblems, CoverMemoryBeyondAnyDevice) {
  EXPECT_THAT(
      ProblemsOf(Edited("  - gamma: {role: in,  dtype: $T, shape: [cols]",
                        "  - gamma: {role: in,  dtype: $T, shape: [cols * 2^40]")),
      HasSubstr("args.gamma.shape: [4503599627370496] has more elements than any device can "
                "hold; bound the dims with 'valid'"));
  EXPECT_THAT(ProblemsOf(Edited("  - gamma: {role: in,  dtype: $T, shape: [cols]",
                                "  - gamma: {role: in,  dtype: $T, shape: [cols - 5000]")),
              HasSubstr("an extent cannot be negative"));
}

TEST(TaskProblems, NameTheByteThatIsNotUtf8) {
  TaskFiles files = LayernormFiles();
  files["kernel.cu"] = "// kernel\n//  Caf\xE9\n";
  EXPECT_EQ(ProblemsOf(files), "kernel.cu:2:8: byte 0xe9 is not UTF-8; save the file as UTF-8\n");
  files = LayernormFiles();
  files["task.yaml"] += "# \xFF\n";
  EXPECT_THAT(ProblemsOf(files), HasSubstr("byte 0xff is not UTF-8"));
  files = LayernormFiles();
  files["\xFF.h"] = "";
  EXPECT_THAT(ProblemsOf(files), HasSubstr("name is not UTF-8"));
  files = LayernormFiles();
  files["data.npy"] = "\x93NUMPY\xFF";
  EXPECT_EQ(ProblemsOf(files), "");
}

TEST(TaskProblems, CoverTheMeaningOfFields) {
  const std::pair<std::pair<std::string, std::string>, std::string> edits[] = {
      {{"fill: {normal: [0, 1]}", "fill: {zipf: 1.0}"}, "this fill is for integers"},
      {{"fill: {normal: [0, 1]}", "fill: norml"}, "unknown fill 'norml'; did you mean 'normal'?"},
      {{"fill: {normal: [0, 1]}", "fill: normal"}, "'normal' needs a parameter"},
      {{"fill: {normal: [0, 1]}", "fill: {normal: [0]}"}, "needs two numbers"},
      {{"role: out, dtype: $T, shape: [rows, cols]",
        "role: out, dtype: $T, shape: [rows, cols], fill: zero"},
       "an output has no fill"},
      {{"shape: [rows, cols], fill", "shape: [rows, cols], strides: [cols], fill"},
       "has 1 entries but the shape has 2"},
      {{"role: out, dtype: $T, shape: [rows, cols]",
        "role: out, dtype: $T, shape: [rows, cols], strides: [1, 1]"},
       "elements of an output overlap"},
      {{"role: out, dtype: $T, shape: [rows, cols]",
        "role: out, dtype: $T, shape: [rows, cols], strides: [0, 1]"},
       "0 only for inputs"},
      {{"tunables: {BLOCK: [64,", "tunables: {rows: [1], BLOCK: [64,"},
       "'rows' cannot name a tunable"},
      {{"constraints: [\"BLOCK <=", "constraints: [\"BLOKC <="}, "did you mean 'BLOCK'?"},
      {{"grid: [rows]", "grid: [1, 1, 1, 1]"}, "needs one to three extents, not 4"},
      {{"workspace: []", "workspace: [{x: {dtype: f32, shape: [1]}}]"},
       "'x' cannot name a workspace"},
      {{"{y: {auto:", "{y: {exact: bits, auto:"}, "needs exactly one of auto, exact"},
      {{"checked: [", "checked: [{T: f64, rows: 1, cols: 1}, "},
       "f64 is not among the dtypes of T"},
      {{"weight: 2", "weight: -2"}, "a weight must be positive"},
      {{"cols: 1}, {T: f16, rows: 3", "cols: 1, weight: 2}, {T: f16, rows: 3"}, "only timed cases"},
      {{"nonfinite: propagate", "nonfinite: maybe"}, "'maybe' is not a choice here"},
      {{"held_out: 3", "held_out: 1000"}, "between 0 and 64"},
      {{"name: layernorm_fwd", "name: layer norm"}, "must be a name of letters"},
      {{"rows: {min: 0, max: 1048576}", "rows: {min: 9, max: 5}"}, "min 9 above max 5"},
      {{"value: 1.0e-5}", "value: per_case}"}, "which is 'per_case' without 'from'"},
      {{"dtype: i32, value: cols", "dtype: i8, value: cols"}, "4096 does not fit i8"},
      {{"{kernel: \"layernorm_fwd<$T>\"", "{kernel: \"layernorm fwd(); system<\""},
       "no kernel name"},
  };
  for (const auto& [edit, expected] : edits) {
    EXPECT_THAT(ProblemsOf(Edited(edit.first, edit.second)), HasSubstr(expected)) << edit.second;
  }
}

// Random damage to the text: refused or accepted, but always with a place and never a crash.
TEST(TaskProblems, SurviveRandomDamage) {
  std::mt19937_64 random(11);
  const std::string original = kLayernormYaml;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = original;
    for (std::uint64_t k = 0; k <= random() % 3; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, random() % 20);
          break;
        case 1:
          text.insert(at, 1, static_cast<char>(random() % 256));
          break;
        case 2:
          text[at] = "{}[]:,-\"'#&*!|>%@` \n"[random() % 20];
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
      }
    }
    TaskFiles files = LayernormFiles();
    files["task.yaml"] = text;
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(files, &problems);
    refused += !task.ok();
    ASSERT_EQ(task.ok(), problems.empty());
  }
  EXPECT_GT(refused, 1500);
}

TEST(KernelProblems, CoverProposals) {
  const auto task = ParseOk(LayernormFiles());
  const nlohmann::json good = ToJson(task->baseline());
  std::vector<TaskProblem> problems;
  ASSERT_TRUE(task->ParseKernelSpec(good, &problems).ok()) << FormatProblems(problems);
  EXPECT_EQ(ToJson(*task->ParseKernelSpec(good, nullptr)), good);
  const auto refuse = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json block = good;
    block[key] = value;
    const auto parsed = task->ParseKernelSpec(block, &problems);
    EXPECT_FALSE(parsed.ok()) << key;
    return FormatProblems(problems);
  };
  EXPECT_THAT(refuse("flags", "-O3"), HasSubstr("unknown field 'flags'"));
  EXPECT_THAT(refuse("source", nullptr), HasSubstr("source must be text"));
  EXPECT_THAT(refuse("values", nlohmann::json::object()), HasSubstr("does not give 'BLOCK'"));
  EXPECT_THAT(refuse("requires", {"cols > 10000000"}), HasSubstr("no timed case"));
  EXPECT_THAT(refuse("requires", {"BLOCK > 1"}), HasSubstr("'BLOCK' is not one of the dims"));
  EXPECT_THAT(refuse("launches", "x"), HasSubstr("launches must be a list"));
  EXPECT_THAT(refuse("tunables", {{"BLOCK", {1, 1}}}), HasSubstr("lists 1 twice"));
  EXPECT_FALSE(task->ParseKernelSpec("text", &problems).ok());
  EXPECT_FALSE(task->ParseKernelSpec(nullptr, &problems).ok());
}

}  // namespace
}  // namespace fettle
