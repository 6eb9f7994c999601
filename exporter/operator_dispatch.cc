// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "exporter/operator_writer.h"

namespace fettle {

void OperatorWriter::Select() {
  const std::vector<const DimDecl*> plain = Plain();
  const std::set<std::string> derived = ListDerivedDims(model_);
  int index = 0;
  std::string body;
  for (std::size_t t = 0; t < bundle_.selection.size(); ++t) {
    std::string rows;
    for (const SelectionRow& row : bundle_.selection[t].rows) {
      std::string order;
      for (const int kernel : row.order) order += fmt::format("{}, ", kernel);
      Line("inline constexpr signed char kOrder{}[] = {{{}-1}};", index, order);
      BuildSelector types{.types = row.types, .special = {}};
      std::string test = Selector(types);
      for (const auto& [name, range] : row.dims) {
        if (range.first == range.second) {
          test += fmt::format(" && c.d_{}.value == INT64_C({})", name, range.first);
          continue;
        }
        if (range.first > INT64_MIN)
          test += fmt::format(" && c.d_{}.value >= INT64_C({})", name, range.first);
        if (range.second < INT64_MAX)
          test += fmt::format(" && c.d_{}.value <= INT64_C({})", name, range.second);
      }
      const char* kind = row.kind == SelectionRow::Kind::kExact    ? "kExact"
                         : row.kind == SelectionRow::Kind::kBucket ? "kBucket"
                                                                   : "kGeneric";
      rows += fmt::format("      if ({}) out.add(kOrder{}, ::fettle::Choice::{});\n", test, index++,
                          kind);
    }
    body += fmt::format("    case {}:  // {}: regret {:.2f} %, at most {:.2f} %\n{}      break;\n",
                        t, bundle_.selection[t].target, bundle_.selection[t].mean_regret * 100,
                        bundle_.selection[t].worst_regret * 100, rows);
  }
  Line(
      "\n// Variants for the call, best first: exact size, then bucket, then any.\n"
      "inline void select(int target, const Call& c, ::fettle::Candidates& out) {{\n  (void)c;\n  "
      "(void)out;\n"
      "  switch (target) {{\n{}    default:\n      break;\n  }}\n}}\n",
      body);
}

void OperatorWriter::Keys() {
  std::string key, text;
  int count = 0;
  text += "  std::string text = \"\\\"types\\\":{\";\n";
  bool first = true;
  for (const TypeFamily& family : model_.types) {
    key += fmt::format("  key[{}] = static_cast<std::int64_t>(c.types.{});\n", count, family.name);
    text += fmt::format(
        "  text += std::string(\"{}\\\"{}\\\":\\\"\") + "
        "::fettle::dtype_name(static_cast<::fettle::DType>(key[{}])) + \"\\\"\";\n",
        first ? "" : ",", family.name, count++);
    first = false;
  }
  text += "  text += \"},\\\"dims\\\":{\";\n";
  first = true;
  for (const DimDecl* dim : view_.inputs) {
    key += fmt::format("  key[{}] = c.shape.{};\n", count, CppIdentifier(dim->name));
    text += fmt::format("  text += \"{}\\\"{}\\\":\" + std::to_string(key[{}]);\n",
                        first ? "" : ",", dim->name, count++);
    first = false;
  }
  for (const ArgDecl* arg : view_.scalars) {
    key +=
        fmt::format("  std::memcpy(&key[{}], &c.args.{}, 8);\n", count++, CppIdentifier(arg->name));
  }
  if (count == 0) key += fmt::format("  key[{}] = 0;\n", count++);
  Line("inline constexpr int kKeySize = {};", count);
  Line(
      "// False: decisions depend on lists, which are no part of a key.\n"
      "inline bool make_key(const Call& c, std::int64_t* key) {{\n  (void)c;\n{}  return {};\n}}",
      key, view_.lists.empty() ? "true" : "false");
  Line(
      "inline std::string describe(const std::int64_t* key) {{\n  (void)key;\n{}  return text + "
      "\"}}\";\n}}\n",
      text);
}

}  // namespace fettle
