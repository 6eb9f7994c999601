// SPDX-License-Identifier: Apache-2.0
#include "core/task.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/bound_json.h"
#include "core/target.h"
#include "tests/core/sample_task.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Task, ReadsTheLayernormExample) {
  const auto task = ParseOk(LayernormFiles());
  EXPECT_EQ(task->name(), "layernorm_fwd");
  EXPECT_EQ(task->license(), "Apache-2.0");
  EXPECT_EQ(task->held_out_count(), 3);
  EXPECT_EQ(task->digest().size(), 64u);
  EXPECT_EQ(task->baseline().source, "// kernel\n");
  EXPECT_EQ(task->baseline().tunables.size(), 1u);
  EXPECT_EQ(task->reference().function, "layernorm_ref");
}

// An entry of a named list is looked up where it lies: with a copy for each of 200,000 entries this
// would take minutes.
TEST(Task, DerivesLongListsFromLongLists) {
  TaskFiles files = Edited("  cols: {min: 1, max: 65536}\n",
                           "  cols: {min: 1, max: 65536}\n"
                           "  lens: {list: rows, min: 0, max: 9, fill: uniform}\n"
                           "  twice: {list: rows, let: \"2 * lens[i]\"}\n");
  std::string& text = files["task.yaml"];
  for (const char* set : {"{T: f16, rows: 16384,", "{T: bf16, rows: 8192,", "{T: f32, rows: 1,",
                          "{T: f16, rows: 3,", "{T: f16, rows: 0,"}) {
    const std::size_t at = text.find(set);
    ASSERT_NE(at, std::string::npos) << set;
    text.insert(at + 1, "lens: 4, ");
  }
  text.replace(text.find("rows: 16384, cols: 4096"), 23, "rows: 200000, cols: 16");
  const auto task = ParseOk(files);
  ASSERT_NE(task, nullptr);
  const auto cases = task->BindCases(CaseSet::kTimed, 1);
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const BoundDim& dim : cases->front().dims) {
    if (dim.name != "twice") continue;
    EXPECT_EQ(dim.values, std::vector<std::int64_t>(200000, 8));
  }
}

TEST(Task, BindsTheCasesForOneKindOfTarget) {
  const auto task = ParseOk(Edited("timed:   [{T: f16, rows: 16384",
                                   "timed:   [{T: f16, for: cpu, rows: 8, cols: 8}, "
                                   "{T: f16, for: gpu, rows: 16384"));
  const auto labels = [&](const char* target) {
    std::vector<std::string> found;
    const auto cases = task->BindCases(CaseSet::kTimed, 1, *FindTarget(target));
    for (const BoundCase& one : *cases) {
      found.push_back(one.label);
    }
    return found;
  };
  EXPECT_EQ(labels("cpu"), (std::vector<std::string>{"timed/0", "timed/2"}));
  EXPECT_EQ(labels("sm_90a"), (std::vector<std::string>{"timed/1", "timed/2"}));
  EXPECT_EQ(task->BindCases(CaseSet::kTimed, 1)->size(), 3u);
  EXPECT_NE(task->digest(), ParseOk(LayernormFiles())->digest());
}

TEST(Task, RefusesCasesThatLeaveOneKindOfTargetWithoutAny) {
  std::vector<TaskProblem> problems;
  EXPECT_FALSE(Task::Parse(Edited("rows: 16384, cols: 4096}, {T: bf16,",
                                  "for: gpu, rows: 16384, cols: 4096}, {T: bf16, for: gpu,"),
                           &problems)
                   .ok());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("has no case for cpu targets"));
  problems.clear();
  EXPECT_FALSE(
      Task::Parse(Edited("{T: f32, rows: 1,", "{T: f32, for: amd, rows: 1,"), &problems).ok());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("for: cpu"));
}

TEST(Task, BindsTheCasesOfTheLayernormExample) {
  const auto task = ParseOk(LayernormFiles());
  const auto timed = task->BindCases(CaseSet::kTimed, 1);
  ASSERT_TRUE(timed.ok()) << timed.status();
  ASSERT_EQ(timed->size(), 2u);
  const BoundCase& first = timed->front();
  EXPECT_EQ(first.label, "timed/0");
  EXPECT_EQ(first.Describe(), "rows=16384 cols=4096 T=f16");
  ASSERT_EQ(first.tensors.size(), 4u);
  EXPECT_EQ(first.tensors[0].shape, (std::vector<std::int64_t>{16384, 4096}));
  EXPECT_EQ(first.tensors[0].strides, (std::vector<std::int64_t>{4096, 1}));
  EXPECT_EQ(first.tensors[0].fill.kind, Fill::Kind::kNormal);
  EXPECT_TRUE(first.tensors[0].nonfinite);
  EXPECT_EQ(first.tensors[3].role, Role::kOut);
  ASSERT_EQ(first.scalars.size(), 3u);
  EXPECT_EQ(first.scalars[0].integer, 16384);
  EXPECT_EQ(first.scalars[2].real, static_cast<double>(1e-5f));
  EXPECT_EQ(first.work_bytes, 2.0 * 2 * 16384 * 4096);
  EXPECT_EQ(first.tolerances[0].reduce, 4096);
  EXPECT_EQ(first.tolerances[0].inner, DType::kF32);
  EXPECT_EQ((*timed)[1].weight, 2);
  const auto checked = task->BindCases(CaseSet::kChecked, 1);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->size(), 3u);
  for (const BoundCase& entry : *checked) {
    const auto back = BoundCaseFromJson(ToJson(entry));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(ToJson(*back), ToJson(entry));
  }
}

TEST(Task, BindsThePlanOfTheLayernormExample) {
  const auto task = ParseOk(LayernormFiles());
  const Target target = *FindTarget("gfx950");
  const auto timed = *task->BindCases(CaseSet::kTimed, 1);
  const auto plan = task->BindPlan(task->baseline(), {{"BLOCK", 512}}, timed[1], target);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->steps.size(), 1u);
  const BoundStep& step = plan->steps[0];
  EXPECT_EQ(step.entry, "layernorm_fwd<__nv_bfloat16>");
  EXPECT_EQ(step.grid, (std::array<std::int64_t, 3>{8192, 1, 1}));
  EXPECT_EQ(step.block, (std::array<std::int64_t, 3>{512, 1, 1}));
  ASSERT_EQ(step.args.size(), 7u);
  EXPECT_EQ(step.args[3].kind, BoundArg::Kind::kTensor);
  EXPECT_EQ(step.args[3].index, 3);
  EXPECT_EQ(step.args[4].bytes, (std::vector<std::uint8_t>{0, 32, 0, 0}));
  EXPECT_EQ(step.args[6].bytes.size(), 4u);
  const auto back = BoundPlanFromJson(ToJson(*plan));
  ASSERT_TRUE(back.ok()) << back.status();
}

TEST(Task, LeavesOutStepsWithAnEmptyGrid) {
  const auto task = ParseOk(LayernormFiles());
  const auto checked = *task->BindCases(CaseSet::kChecked, 1);
  const auto plan =
      task->BindPlan(task->baseline(), {{"BLOCK", 64}}, checked[2], *FindTarget("cpu"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->steps.empty());
}

TEST(Task, SaysWhatMustBeCompiled) {
  const auto task = ParseOk(LayernormFiles());
  const auto checked = *task->BindCases(CaseSet::kChecked, 1);
  const auto timed = *task->BindCases(CaseSet::kTimed, 1);
  const Target target = *FindTarget("cpu");
  const auto f32 = *task->BuildInputsFor(task->baseline(), {{"BLOCK", 64}}, checked[0], target);
  EXPECT_EQ(f32.entries, (std::vector<std::string>{"layernorm_fwd<float>"}));
  EXPECT_EQ(f32.macros, (std::vector<std::pair<std::string, std::string>>{{"BLOCK", "64"}}));
  const auto f16 = *task->BuildInputsFor(task->baseline(), {{"BLOCK", 64}}, checked[1], target);
  EXPECT_EQ(f16.key,
            task->BuildInputsFor(task->baseline(), {{"BLOCK", 64}}, timed[0], target)->key);
  EXPECT_NE(f16.key, f32.key);
  KernelSpec hip = task->baseline();
  hip.dialect = Dialect::kHip;
  EXPECT_EQ(task->BuildInputsFor(hip, {{"BLOCK", 64}}, timed[1], target)->entries[0],
            "layernorm_fwd<__hip_bfloat16>");
  EXPECT_FALSE(task->BuildInputsFor(hip, {}, timed[1], target).ok());
}

TEST(Task, AdmitsWhatItsConstraintsAllow) {
  const auto task = ParseOk(LayernormFiles());
  const KernelSpec& kernel = task->baseline();
  const Target amd = *FindTarget("gfx950"), cpu = *FindTarget("cpu");
  EXPECT_TRUE(*task->Admits(kernel, {{"BLOCK", 64}}, amd, nullptr));
  EXPECT_FALSE(*task->Admits(kernel, {{"BLOCK", 96}}, amd, nullptr));
  EXPECT_TRUE(*task->Admits(kernel, {{"BLOCK", 96}}, cpu, nullptr));
  EXPECT_FALSE(task->Admits(kernel, {{"BLOK", 96}}, cpu, nullptr).ok());
}

TEST(Task, RefusesPlansBeyondTheTarget) {
  const auto task = ParseOk(LayernormFiles());
  const auto timed = *task->BindCases(CaseSet::kTimed, 1);
  const Target target = *FindTarget("gfx950");
  const auto error = [&](const std::string& field, const nlohmann::json& value) {
    KernelSpec kernel = task->baseline();
    kernel.launches[0][field] = value;
    const auto plan = task->BindPlan(kernel, {{"BLOCK", 256}}, timed[0], target);
    EXPECT_FALSE(plan.ok()) << field;
    return std::string(plan.status().message());
  };
  EXPECT_THAT(error("block", {"2048"}), HasSubstr("has 2048 threads; gfx950 allows 1024"));
  EXPECT_THAT(error("block", {"0"}), HasSubstr("has no threads"));
  EXPECT_THAT(error("shared", "300*1024"), HasSubstr("307200 bytes of dynamic shared memory"));
  EXPECT_THAT(error("grid", {"2^24"}), HasSubstr("less than 2^32 threads"));
  EXPECT_THAT(error("grid", {"1", "70000"}), HasSubstr("grid[1] is 70000; gfx950 allows 65535"));
  EXPECT_THAT(error("grid", {"rows - 20000"}), HasSubstr("cannot be negative"));
  EXPECT_THAT(error("grid", {"rows / 3"}), HasSubstr("use ceil_div(rows, 3)"));
  EXPECT_THAT(error("grid", {"rows / (cols - cols)"}), HasSubstr("division by zero"));
  EXPECT_THAT(error("cluster", {"2"}), HasSubstr("has no clusters"));
}

TEST(Task, DigestFollowsTheMeaningNotTheSpelling) {
  const std::string digest = ParseOk(LayernormFiles())->digest();
  EXPECT_EQ(ParseOk(Edited("rows*cols <= 2^31", " rows * cols<=2^31 "))->digest(), digest);
  EXPECT_EQ(ParseOk(Edited("format: 1", "# a comment\nformat: 1"))->digest(), digest);
  EXPECT_EQ(ParseOk(Edited("  held_out: 3\n", ""))->digest(), digest);  // The default.
  EXPECT_NE(ParseOk(Edited("2^31", "2^30"))->digest(), digest);
  TaskFiles other = LayernormFiles();
  other["reference.cc"] += "// changed\n";
  EXPECT_NE(ParseOk(other)->digest(), digest);
}

TEST(Task, ReadsTheBundledTasks) {
  int tasks = 0;
  for (const auto& folder : fs::directory_iterator(fs::path(FETTLE_SOURCE_DIR) / "tasks")) {
    if (!folder.is_directory()) continue;
    TaskFiles files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ostringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      files[entry.path().filename().string()] = text.str();
    }
    ++tasks;
    const auto task = ParseOk(files);
    ASSERT_NE(task, nullptr) << folder.path();
    for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
      const auto cases = task->BindCases(set, 7);
      ASSERT_TRUE(cases.ok()) << cases.status();
      for (const BoundCase& entry : *cases) {
        for (const std::string target : {"cpu", "gfx950", "sm_90a"}) {
          const auto plan =
              task->BindPlan(task->baseline(), task->baseline().values, entry, *FindTarget(target));
          EXPECT_TRUE(plan.ok()) << folder.path() << " " << entry.label << " " << plan.status();
        }
      }
    }
    const auto held_out = task->DrawHeldOut(3, std::int64_t{1} << 28);
    EXPECT_TRUE(held_out.ok()) << held_out.status();
  }
  EXPECT_GE(tasks, 4);
}

}  // namespace
}  // namespace fettle
