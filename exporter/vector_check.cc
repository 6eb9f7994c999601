// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/reference_header.h"
#include "core/task_model.h"
#include "exporter/generated.h"
#include "exporter/operator_header.h"
#include "exporter/runtime_files.h"  // Generated from exporter/runtime.

namespace fettle {
namespace {

using nlohmann::json;

std::string TextOf(const json& object, const char* key) {
  const json value = object.is_object() ? object.value(key, json()) : json();
  return value.is_string() ? value.get<std::string>() : "";
}

std::string CaseBody(const BundleModel& model, const json& entry, const std::string& space) {
  const OperatorView view = ViewOf(model);
  std::string text = fmt::format(
      "    {{\n      {0}::Types types;\n      {0}::Shape shape;\n      {0}::Args args;\n", space);
  const json types = entry.value("types", json::object());
  for (const auto& [family, dtype] : types.items()) {
    const auto parsed = ParseDType(dtype.is_string() ? dtype.get<std::string>() : "");
    if (parsed) text += fmt::format("      types.{} = {};\n", family, CppDType(*parsed));
  }
  const json dims = entry.value("dims", json::object());
  for (const DimDecl* dim : view.inputs) {
    const json value = dims.value(dim->name, json(0));
    text += fmt::format("      shape.{} = INT64_C({});\n", CppIdentifier(dim->name),
                        value.is_number_integer() ? value.get<std::int64_t>() : 0);
  }
  const json lists = entry.value("lists", json::object());
  for (const DimDecl* dim : view.lists) {
    std::string values;
    const json list = lists.value(dim->name, json::array());
    for (const json& value : list)
      values +=
          fmt::format("INT64_C({}), ", value.is_number_integer() ? value.get<std::int64_t>() : 0);
    text += fmt::format(
        "      const std::int64_t list_{0}[] = {{{1}0}};\n      shape.{2} = {{list_{0}, "
        "static_cast<std::int64_t>(sizeof list_{0} / 8 - 1)}};\n",
        dim->name, values, CppIdentifier(dim->name));
  }
  const json scalars = entry.value("scalars", json::object());
  for (const ArgDecl* arg : view.scalars) {
    const json value = scalars.value(arg->name, json(0));
    const std::string field = CppIdentifier(arg->name);
    text += IsFloat(arg->type.dtype)
                ? fmt::format("      args.{} = {:.17g};\n", field,
                              value.is_number() ? value.get<double>() : 0.0)
                : fmt::format("      args.{} = INT64_C({});\n", field,
                              value.is_number_integer() ? value.get<std::int64_t>() : 0);
  }
  std::string checks;
  const json tensors = entry.value("tensors", json::array());
  for (const ArgDecl* arg : view.tensors) {
    const json* found = nullptr;
    for (const json& tensor : tensors) {
      if (TextOf(tensor, "name") == arg->name) found = &tensor;
    }
    if (found == nullptr) continue;
    const std::string name = CppIdentifier(arg->name);
    const json bytes = found->value("bytes", json(0));
    const auto size = bytes.is_number_integer() ? bytes.get<std::int64_t>() : 0;
    const bool is_null = found->value("null", json(false)) == json(true);
    const std::string input = TextOf(*found, "input"), expected = TextOf(*found, "expected");
    if (is_null) continue;
    const std::string memory = input.empty() ? fmt::format("memory.output({}u)", size)
                                             : fmt::format("memory.input(\"{}\")", input);
    text += fmt::format(
        "      void* const data_{0} = {1};\n      args.{0}.data = "
        "static_cast<decltype(args.{0}.data)>(data_{0});\n",
        name, memory);
    const auto dtype = ParseDType(TextOf(*found, "dtype"));
    if (expected.empty() || !dtype) continue;
    checks += fmt::format("      wrong += memory.compare(data_{}, {}u, {}, \"{}\", \"{}\");\n",
                          name, size, CppDType(*dtype), expected, TextOf(*found, "tolerance"));
  }
  text += fmt::format(
      "      const std::size_t need = op.workspace_bytes(backend, types, shape);\n"
      "      fettle::Workspace workspace{{memory.output(need), need}};\n"
      "      const fettle::Result result = op(memory.stream(), types, shape, args, workspace);\n   "
      "   memory.wait();\n"
      "      long wrong = 0;\n      if (result) {{\n{}      }}\n      failed += report(\"{}\", "
      "result, wrong);\n    }}\n",
      checks, TextOf(entry, "label"));
  return text;
}

std::string Embedded(std::string_view name) {
  for (const EmbeddedFile& file : ExporterRuntimeFiles()) {
    if (file.name == name) return std::string(file.bytes);
  }
  return "";
}

}  // namespace

GeneratedFiles VectorCheck(const BundleModel& model, const json& index) {
  if (!index.is_object() || !index.value("cases", json()).is_array() || index["cases"].empty())
    return {};
  const std::string space = "fettle_ops::" + OperatorNamespace(model);
  std::string cases;
  for (const json& entry : index["cases"]) cases += CaseBody(model, entry, space);
  const std::string text = fmt::format(
      R"text(// SPDX-License-Identifier: {0}
// Generated by fettle {1}; do not edit. Runs the bundle's test vectors: check_vectors [cpu|cuda|hip].
// Exit code: 0 all are right, 1 one is not, 3 the device or its driver is missing.
#include <cstring>

#include <fettle_ops/{2}/{3}.hpp>

#include "vector_memory.hpp"

namespace {{

int report(const char* label, const fettle::Result& result, long wrong) {{
  const bool good = static_cast<bool>(result) && wrong == 0;
  std::printf("%s %s: %s%s%s, %ld elements wrong%s%s\n", good ? "ok  " : "FAIL", label, result.kernel,
              *result.kernel != '\0' ? ", " : "", fettle::choice_name(result.choice), wrong, *result.message != '\0' ? ": " : "",
              result.message);
  return good ? 0 : 1;
}}

}}  // namespace

int main(int argc, char** argv) {{
  const fettle::Backend backend = argc > 1 && std::strcmp(argv[1], "cuda") == 0  ? fettle::Backend::kCuda
                                  : argc > 1 && std::strcmp(argv[1], "hip") == 0 ? fettle::Backend::kHip
                                                                                 : fettle::Backend::kCpu;
  {4}::Operator op;
  if (argc > 2) op.set_root(argv[2]);
  op.allow_compiled_only(true);
  const char* root = argc > 2 ? argv[2] : {4}::Spec::default_root();
  fettle::VectorMemory memory(backend, std::string(root) + "/tests/vectors");
  const fettle::Result ready = op.prepare(backend);
  if (!ready) {{
    std::fprintf(stderr, "prepare: %s\n", ready.message);
    return 3;
  }}
  int failed = 0;
  {{
{5}  }}
  return failed == 0 ? 0 : 1;
}}
)text",
      model.task->license(), FETTLE_VERSION, CppIdentifier(model.task->name()),
      model.short_digest(), space, cases);
  return {{"tests/check_vectors.cpp", text},
          {"tests/vector_memory.hpp", Embedded("fettle_vector_memory.hpp")}};
}

GeneratedFiles ReferenceFiles(const BundleModel& model) {
  const Task::ReferenceSpec& reference = model.task->reference();
  GeneratedFiles files;
  if (reference.kind != "cxx" || reference.source.empty()) return files;
  files["reference/fettle_reference.h"] = std::string(ReferenceHeader());
  const std::string name = CppIdentifier(model.task->name());
  std::string checkers;
  for (const Task::CheckerSpec& checker : model.task->checkers()) {
    checkers += fmt::format("extern \"C\" void {}(fettle_check*);  // task/{}\n", checker.function,
                            checker.source);
  }
  files[fmt::format("reference/{}_reference.hpp", name)] = fmt::format(
      "// SPDX-License-Identifier: {0}\n// Generated by fettle {1}; do not edit. The CPU reference "
      "of {2}, in double precision:\n"
      "// compile task/{3} (C++17, this folder on the include path) and call the function with "
      "inputs decoded\n"
      "// to doubles; fettle_reference.h describes the structures. Tolerances are in "
      "manifest.json.\n"
      "#ifndef FETTLE_REFERENCE_OF_{2}_HPP\n#define FETTLE_REFERENCE_OF_{2}_HPP\n#include "
      "\"fettle_reference.h\"\n"
      "extern \"C\" void {4}(fettle_ref*);\n{5}#endif\n",
      model.task->license(), FETTLE_VERSION, name, reference.source, reference.function, checkers);
  return files;
}

}  // namespace fettle
