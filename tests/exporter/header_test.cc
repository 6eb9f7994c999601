// SPDX-License-Identifier: Apache-2.0
// Typed headers of every bundled task, as a careful library compiles them.

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/digest.h"
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
