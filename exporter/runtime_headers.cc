// SPDX-License-Identifier: Apache-2.0
#include "exporter/runtime_headers.h"

#include <string_view>

#include <fmt/format.h>

#include "core/expr.h"
#include "core/status_macros.h"
#include "exporter/runtime_files.h"  // Generated from exporter/runtime.

namespace fettle {

std::string RuntimeFile(std::string_view name) {
  for (const EmbeddedFile& file : ExporterRuntimeFiles()) {
    if (file.name == name) return std::string(file.bytes);
  }
  FETTLE_CHECK(false && "no such runtime file");
  return {};
}

std::map<std::string, std::string> RuntimeHeaderFiles() {
  std::string prelude(ExprCppPrelude());
  prelude = fmt::format(
      "// SPDX-License-Identifier: Apache-2.0\n#ifndef FETTLE_EXPR_1_HPP\n#define "
      "FETTLE_EXPR_1_HPP\n{}\n"
      "namespace fettle_expr {{\n"
      "// As Div, but an inexact quotient fails: shapes and grids.\n"
      "inline Checked DivExact(Checked a, Checked b) {{\n"
      "  if (!a.ok || !b.ok || b.value == 0 || (b.value != -1 && a.value % b.value != 0)) return "
      "Fail();\n"
      "  return Div(a, b);\n}}\n}}  // namespace fettle_expr\n#endif\n",
      prelude);
  // Two bundles carry the same file at two places, which #pragma once takes for two files.
  std::string abi = RuntimeFile("cpu_abi.h");
  const std::size_t once = abi.find("#pragma once");
  FETTLE_CHECK(once != std::string::npos);
  abi.replace(once, 12, "#ifndef FETTLE_CPU_ABI_1_H\n#define FETTLE_CPU_ABI_1_H");
  abi += "#endif\n";
  return {{"include/fettle/expr.hpp", std::move(prelude)},
          {"include/fettle/runtime.hpp", RuntimeFile("fettle_runtime.hpp")},
          {"include/fettle/cpu_host.hpp", RuntimeFile("fettle_cpu_host.hpp")},
          {"include/fettle/cpu_abi.h", std::move(abi)}};
}

}  // namespace fettle
