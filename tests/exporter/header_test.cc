// SPDX-License-Identifier: Apache-2.0
// Typed headers of every bundled task, as a careful library compiles them.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include <fmt/ranges.h>

#include "core/digest.h"
#include "exporter/evidence_check.h"
#include "exporter/generated.h"
#include "exporter/operator_header.h"
#include "exporter/operator_view.h"
#include "exporter/runtime_headers.h"
#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

TaskFiles ReadFolder(const fs::path& folder) {
  TaskFiles files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    files[entry.path().lexically_relative(folder).string()] = text.str();
  }
  return files;
}

// A bundle of the baseline alone.
BundleModel BaselineModel(std::shared_ptr<const Task> task) {
  BundleModel model;
  model.task = std::move(task);
  model.version = "1.0.0";
  model.digest = Sha256Hex(model.task->name());
  model.targets = {"cpu"};
  model.kernels.push_back({.id = kBaselineId,
                           .kernel = model.task->baseline(),
                           .values = model.task->baseline().values,
                           .variant = nullptr,
                           .envelopes = {}});
  return model;
}

TEST(Headers, OfEveryBundledTaskCompile) {
  const TestFolder folder;
  fs::create_directories(folder.path() + "/include/fettle");
  for (const auto& [path, text] : RuntimeHeaderFiles()) folder.Write(path, text);
  std::string includes, uses;
  int count = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(std::string(FETTLE_SOURCE_DIR) + "/tasks")) {
    if (!fs::exists(entry.path() / "task.yaml")) continue;
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(ReadFolder(entry.path()), &problems);
    ASSERT_TRUE(task.ok()) << entry.path() << FormatProblems(problems);
    const BundleModel model = BaselineModel(*task);
    const auto header = OperatorHeader(model);
    ASSERT_TRUE(header.ok()) << entry.path() << ": " << header.status();
    const std::string space = OperatorNamespace(model);
    folder.Write(space + ".hpp", *header);
    includes += fmt::format("#include \"{}.hpp\"\n", space);
    uses += fmt::format(
        "  {{\n    static fettle_ops::{}::Operator op;\n    sum += "
        "static_cast<int>(op(fettle::cpu(), "
        "{{}}, {{}}, {{}}).status);\n  }}\n",
        space);
    ++count;
  }
  EXPECT_GE(count, 20);
  folder.Write("main.cc", includes + "int main() {\n  int sum = 0;\n" + uses +
                              "  return sum > 0 ? 0 : 1;\n}\n");
  for (const char* compiler : {"g++ -std=c++17", "clang++ -std=c++20"}) {
    if (RunCommand(std::string(compiler) + " --version").code != 0) {
      std::printf("not compiled with %s: it is not here\n", compiler);
      continue;
    }
    const CommandResult built = RunCommand(
        fmt::format("{1} -fsyntax-only -Wall -Wextra -Wshadow -Wconversion -Werror -fno-exceptions "
                    "-fno-rtti -I{0}/include -I{0} {0}/main.cc",
                    folder.path(), compiler));
    EXPECT_EQ(built.code, 0) << compiler << "\n" << built.output.substr(0, 4000);
  }
}

// One case of a bundled task as statements: reports where `kernel` refuses it.
std::string AskForCase(const BundleModel& model, std::size_t kernel, const BoundCase& bound_case) {
  const OperatorView view = ViewOf(model);
  const auto values_of = [&](const std::string& name) {
    for (const BoundDim& dim : bound_case.dims) {
      if (dim.name == name) return dim.values;
    }
    return std::vector<std::int64_t>();
  };
  std::string text = "  {\n    Types t;\n    Shape s;\n";
  for (const auto& [family, dtype] : bound_case.types)
    text += fmt::format("    t.{} = {};\n", family, CppDType(dtype));
  for (const DimDecl* dim : view.inputs) {
    text += fmt::format("    s.{} = INT64_C({});\n", CppIdentifier(dim->name),
                        values_of(dim->name).at(0));
  }
  for (const DimDecl* dim : view.lists) {
    const std::vector<std::int64_t> values = values_of(dim->name);
    text += fmt::format(
        "    static const std::int64_t list_{0}[] = {{{1}, 0}};\n"
        "    s.{2} = {{list_{0}, {3}}};\n",
        dim->name, fmt::join(values, ", "), CppIdentifier(dim->name), values.size());
  }
  return text + fmt::format(
                    "    const Args a;\n    const detail::Call c(t, s, a);\n    ++asked;\n"
                    "    if (const char* problem = detail::check(c)) std::printf(\"{0} {1}: "
                    "%s\\n\", problem);\n"
                    "    if (!detail::guard_{2}(c, fettle_expr::Num(132), false)) "
                    "std::printf(\"{0} {1}: guard {2}\\n\");\n  }}\n",
                    model.task->name(), bound_case.label, kernel);
}

// Arrays, lists, optional tensors and strides included.
TEST(Headers, EveryTestedCaseOfEveryBundledTaskIsWithinItsEnvelope) {
  const TestFolder folder;
  fs::create_directories(folder.path() + "/include/fettle");
  for (const auto& [path, text] : RuntimeHeaderFiles()) folder.Write(path, text);
  std::string includes, functions, calls;
  int cases = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(std::string(FETTLE_SOURCE_DIR) + "/tasks")) {
    if (!fs::exists(entry.path() / "task.yaml")) continue;
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(ReadFolder(entry.path()), &problems);
    ASSERT_TRUE(task.ok()) << entry.path() << FormatProblems(problems);
    BundleModel model = BaselineModel(*task);
    // The baseline as if it were a variant for each of two targets.
    VariantProvenance provenance[2];
    ProvenVariant variants[2];
    std::string body;
    for (std::size_t k = 0; k < 2; ++k) {
      provenance[k].target = k == 0 ? "cpu" : "sm_90a";
      variants[k] = {&provenance[k], *task, (*task)->baseline(), (*task)->baseline().values};
      const auto envelopes = EnvelopesOf(variants[k]);
      ASSERT_TRUE(envelopes.ok()) << envelopes.status();
      model.kernels.insert(model.kernels.end() - 1, {.id = provenance[k].target,
                                                     .kernel = variants[k].kernel,
                                                     .values = variants[k].values,
                                                     .variant = &variants[k],
                                                     .envelopes = *envelopes});
    }
    for (std::size_t k = 0; k < 2; ++k) {
      const auto own = OwnCases(**task, provenance[k].target);
      ASSERT_TRUE(own.ok()) << own.status();
      for (const BoundCase& bound_case : *own) {
        const auto applies = AppliesTo(variants[k], bound_case);
        ASSERT_TRUE(applies.ok()) << applies.status();
        if (!*applies) continue;
        body += AskForCase(model, k, bound_case);
        ++cases;
      }
    }
    const auto header = OperatorHeader(model);
    ASSERT_TRUE(header.ok()) << entry.path() << ": " << header.status();
    const std::string space = OperatorNamespace(model);
    folder.Write(space + ".hpp", *header);
    includes += fmt::format("#include \"{}.hpp\"\n", space);
    functions += fmt::format(
        "static void ask_{0}() {{\n  using namespace fettle_ops::{0};\n{1}}}\n", space, body);
    calls += fmt::format("  ask_{}();\n", space);
  }
  EXPECT_GE(cases, 200);
  folder.Write("main.cc", includes + "#include <cstdio>\nstatic int asked = 0;\n" + functions +
                              "int main() {\n" + calls +
                              "  std::printf(\"asked %d\\n\", asked);\n}\n");
  const CommandResult built = RunCommand(
      fmt::format("g++ -std=c++17 -O0 -pthread -I{0}/include -I{0} {0}/main.cc -o {0}/main -ldl "
                  "'-Wl,--export-dynamic-symbol=fettle_rt_*'",
                  folder.path()));
  ASSERT_EQ(built.code, 0) << built.output.substr(0, 4000);
  EXPECT_EQ(RunCommand(folder.path() + "/main").output, fmt::format("asked {}\n", cases));
}

// tests/cheats/open: wrong above 2^21 elements, and above 16 slices of 131,070 equal values. A job
// on the cpu target accepts both; an exported operator must not reach them.
TEST(Headers, WhatTheCpuTargetCannotShowWrongIsAboveItsEnvelopes) {
  for (const auto& [name, arg, right_up_to] :
       {std::tuple{"softmax", "x", std::int64_t{1} << 21},
        std::tuple{"histogram", "data", std::int64_t{16} * 131'070}}) {
    std::vector<TaskProblem> problems;
    const auto task =
        Task::Parse(ReadFolder(std::string(FETTLE_SOURCE_DIR) + "/tasks/" + name), &problems);
    ASSERT_TRUE(task.ok()) << FormatProblems(problems);
    VariantProvenance provenance;
    provenance.target = "cpu";
    const ProvenVariant variant = {&provenance, *task, (*task)->baseline(),
                                   (*task)->baseline().values};
    const auto envelopes = EnvelopesOf(variant);
    ASSERT_TRUE(envelopes.ok()) << envelopes.status();
    EXPECT_FALSE(envelopes->empty());
    for (const Envelope& envelope : *envelopes)
      EXPECT_LE(envelope.elements.at(arg), right_up_to) << name;
  }
}

// What the binding cannot say (arrays of tensors, host lists) it leaves out; all else is there.
TEST(Headers, TorchBindingsAreMadeWhereASchemaCanSayIt) {
  for (const auto& [name, wanted] :
       {std::pair{"layernorm", true}, {"matmul", true}, {"group_index_select", false}}) {
    std::vector<TaskProblem> problems;
    const auto task =
        Task::Parse(ReadFolder(std::string(FETTLE_SOURCE_DIR) + "/tasks/" + name), &problems);
    ASSERT_TRUE(task.ok());
    const GeneratedFiles files = TorchBinding(BaselineModel(*task));
    EXPECT_EQ(!files.empty(), wanted) << name;
    for (const auto& [path, text] : files) {
      EXPECT_EQ(text.find("{0}"), std::string::npos) << path;
      if (!path.ends_with(".py")) continue;
      const TestFolder folder;
      folder.Write("a.py", text);
      const CommandResult parsed = RunCommand("python3 -m py_compile " + folder.path() + "/a.py");
      EXPECT_EQ(parsed.code, 0) << path << "\n" << parsed.output;
    }
  }
}

}  // namespace
}  // namespace fettle
