// SPDX-License-Identifier: Apache-2.0
// Launch plans and workspaces: checked and brought into one canonical JSON form, which plan_bind.cc
// evaluates. The canonical form is itself accepted as input.

#include <algorithm>

#include <fmt/format.h>

#include "core/task_parse.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSteps = 256, kMaxArguments = 256;
constexpr int kMaxRepeatDepth = 2;

class PlanParser {
 public:
  PlanParser(const TaskModel& model, const KernelSpec& kernel, Problems& problems)
      : model_(model), problems_(problems), names_(PlanNames(model, kernel)) {
    for (const json& entry : kernel.workspace) workspace_.insert(entry.value("name", ""));
    for (const Tunable& tunable : kernel.tunables) in_templates_.insert(tunable.name);
    in_templates_.insert(model.specialize.begin(), model.specialize.end());
  }

  json Steps(const Doc& doc, const std::string& path, int depth);

 private:
  json Step(const Doc& doc, const std::string& path, int depth);
  json Kernel(Fields& fields);
  json Repeat(Fields& fields, const Doc& doc, int depth);
  json FillStep(Fields& fields, const Doc& buffer);
  json CopyStep(Fields& fields, const Doc& from);
  json Argument(const Doc& doc, const std::string& path);
  json Struct(const Doc& doc, const std::string& path);
  json StructField(const Doc& doc, const std::string& path, std::int64_t size,
                   std::vector<std::pair<std::int64_t, std::int64_t>>& taken);
  json TensorMap(const Doc& doc, const std::string& path);
  json Value(Fields& fields, const Doc& value);
  json Buffer(Fields& fields, const Doc& name);
  json Extents(Fields& fields, const char* key, bool required);
  void CheckEntry(const Doc& doc, const std::string& path);
  std::string BufferName(const Doc& doc, const std::string& path);

  // The text of an expression; "0" after a mistake.
  json ExprText(const Doc& doc, const std::string& path) {
    const auto expr = ReadExpr(doc, path, names_, "dims, tunables and target values", problems_);
    return expr ? expr->text() : std::string("0");
  }
  void OptionalExpr(Fields& fields, const char* key, json& out) {
    if (const Doc* doc = fields.Find(key)) out[key] = ExprText(*doc, fields.PathOf(key));
  }

  const TaskModel& model_;
  Problems& problems_;
  std::set<std::string> names_;  // Grows by the variables of `repeat`.
  std::set<std::string> workspace_, in_templates_;
};

json PlanParser::Steps(const Doc& doc, const std::string& path, int depth) {
  json out = json::array();
  const auto* items = ReadList(doc, path, problems_);
  if (items == nullptr) return out;
  if (items->empty() || items->size() > kMaxSteps) {
    problems_.Add(doc, path, fmt::format("{} needs between 1 and {} steps", path, kMaxSteps));
    return out;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    out.push_back(Step((*items)[i], fmt::format("{}[{}]", path, i), depth));
  }
  return out;
}

json PlanParser::Step(const Doc& doc, const std::string& path, int depth) {
  Fields fields(doc, path, problems_);
  if (!fields.valid()) return json::object();
  json out;
  if (const Doc* repeat = fields.Find("repeat")) {
    out = Repeat(fields, *repeat, depth);
  } else if (const Doc* fill = fields.Find("fill")) {
    out = FillStep(fields, *fill);
  } else if (const Doc* copy = fields.Find("copy")) {
    out = CopyStep(fields, *copy);
  } else {
    out = Kernel(fields);
  }
  OptionalExpr(fields, "when", out);
  fields.Finish();
  return out;
}

json PlanParser::Extents(Fields& fields, const char* key, bool required) {
  json out = json::array();
  const Doc* doc =
      required ? fields.Need(key, "give one to three extents, such as '[rows]'") : fields.Find(key);
  if (doc == nullptr) return out;
  const std::string path = fields.PathOf(key);
  const auto* items = ReadList(*doc, path, problems_);
  if (items == nullptr) return out;
  if (items->empty() || items->size() > 3) {
    problems_.Add(*doc, path,
                  fmt::format("{} needs one to three extents, not {}", path, items->size()));
    return out;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    out.push_back(ExprText((*items)[i], fmt::format("{}[{}]", path, i)));
  }
  return out;
}

json PlanParser::Kernel(Fields& fields) {
  json out = {{"shared", "0"}, {"cooperative", false}, {"args", json::array()}};
  const Doc* kernel = fields.Need("kernel", "a step is a kernel, a fill, a copy or a repeat");
  if (kernel != nullptr) {
    out["kernel"] = ReadText(*kernel, fields.PathOf("kernel"), problems_).value_or("");
    if (kernel->kind == Doc::Kind::kScalar) CheckEntry(*kernel, fields.PathOf("kernel"));
  }
  out["grid"] = Extents(fields, "grid", /*required=*/true);
  out["block"] = Extents(fields, "block", /*required=*/true);
  if (fields.Find("cluster") != nullptr) {
    out["cluster"] = Extents(fields, "cluster", /*required=*/false);
  }
  OptionalExpr(fields, "shared", out);
  if (const Doc* cooperative = fields.Find("cooperative")) {
    out["cooperative"] =
        ReadBool(*cooperative, fields.PathOf("cooperative"), problems_).value_or(false);
  }
  if (const Doc* args =
          fields.Need("args", "list what the kernel is called with, '[]' for nothing")) {
    const auto* items = ReadList(*args, fields.PathOf("args"), problems_);
    if (items != nullptr && items->size() > kMaxArguments) {
      problems_.Add(*args, fields.PathOf("args"), "too many arguments");
    } else if (items != nullptr) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        out["args"].push_back(
            Argument((*items)[i], fmt::format("{}[{}]", fields.PathOf("args"), i)));
      }
    }
  }
  return out;
}

// "name" or "space::name<$T, BLOCK, true>".
void PlanParser::CheckEntry(const Doc& doc, const std::string& path) {
  const std::string& text = doc.text;
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':' || c == '<' || c == '>' || c == ',' || c == ' ' || c == '$' || c == '*' ||
           c == '-' || c == '(' || c == ')';
  };
  const bool starts = !text.empty() && (text[0] == '_' || (text[0] >= 'a' && text[0] <= 'z') ||
                                        (text[0] >= 'A' && text[0] <= 'Z'));
  if (!starts || text.size() > 512 || !std::all_of(text.begin(), text.end(), legal)) {
    problems_.Add(doc, path,
                  fmt::format("{}: '{}' is no kernel name or template instance such as "
                              "'layernorm_fwd<$T>'",
                              path, text.substr(0, 80)));
    return;
  }
  const std::size_t open = text.find('<');
  if ((open == std::string::npos) != (text.back() != '>')) {
    problems_.Add(doc, path, fmt::format("{}: '<' and '>' do not match in '{}'", path, text));
  }
  std::set<std::string> families;
  for (const TypeFamily& family : model_.types) families.insert(family.name);
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && (IsIdentifier(text.substr(at + 1, end - at)))) ++end;
    const std::string name = text.substr(at + 1, end - at - 1);
    if (families.contains(name)) continue;
    problems_.Add(doc, path,
                  fmt::format("{}: there is no type '${}' under 'types'; {}", path, name,
                              Suggest(name, families)));
  }
}

json PlanParser::Repeat(Fields& fields, const Doc& doc, int depth) {
  const std::string path = fields.PathOf("repeat");
  json out = {{"repeat", json::object()}, {"steps", json::array()}};
  if (depth + 1 > kMaxRepeatDepth) {
    problems_.Add(doc, path, "'repeat' nests once only");
    fields.Find("steps");
    return out;
  }
  if (doc.kind != Doc::Kind::kMap || doc.entries.size() != 1 ||
      !IsIdentifier(doc.entries.front().key)) {
    problems_.Add(doc, path,
                  fmt::format("{} needs one variable and its count, such as "
                              "'repeat: {{i: n}}'",
                              path));
    fields.Find("steps");
    return out;
  }
  const DocEntry& entry = doc.entries.front();
  out["repeat"][entry.key] = ExprText(entry.value, path + "." + entry.key);
  if (names_.contains(entry.key)) {
    problems_.Add(entry.line, entry.column, path,
                  fmt::format("{}: '{}' already means something else; choose another variable",
                              path, entry.key));
  }
  if (const Doc* steps = fields.Need("steps", "list the steps to repeat")) {
    const bool fresh = names_.insert(entry.key).second;
    out["steps"] = Steps(*steps, fields.PathOf("steps"), depth + 1);
    if (fresh) names_.erase(entry.key);
  }
  return out;
}

// A buffer by name: a tensor, a member of pointers, or workspace.
std::string PlanParser::BufferName(const Doc& doc, const std::string& path) {
  const std::string name = ReadText(doc, path, problems_).value_or("");
  const ArgDecl* arg = model_.FindArg(name);
  const bool buffer = arg != nullptr && arg->role != Role::kScalar;
  if (!buffer && !workspace_.contains(name) && doc.kind == Doc::Kind::kScalar) {
    std::set<std::string> known = workspace_;
    for (const ArgDecl& entry : model_.args) {
      if (entry.role != Role::kScalar) known.insert(entry.name);
    }
    problems_.Add(doc, path,
                  fmt::format("{}: there is no buffer '{}'; {}", path, name.substr(0, 80),
                              Suggest(name, known)));
  }
  return name;
}

json PlanParser::FillStep(Fields& fields, const Doc& buffer) {
  json out = {{"fill", BufferName(buffer, fields.PathOf("fill"))}, {"byte", 0}, {"offset", "0"}};
  if (const Doc* byte = fields.Find("byte")) {
    const auto value = ReadInteger(*byte, fields.PathOf("byte"), problems_).value_or(0);
    if (value < 0 || value > 255) {
      problems_.Add(*byte, fields.PathOf("byte"), "a fill's byte is between 0 and 255");
    }
    out["byte"] = value;
  }
  for (const char* key : {"offset", "count", "member"}) OptionalExpr(fields, key, out);
  return out;
}

json PlanParser::CopyStep(Fields& fields, const Doc& from) {
  json out = {
      {"copy", BufferName(from, fields.PathOf("copy"))}, {"offset", "0"}, {"to_offset", "0"}};
  if (const Doc* to = fields.Need("to", "name the buffer to copy into")) {
    out["to"] = BufferName(*to, fields.PathOf("to"));
  }
  for (const char* key : {"offset", "to_offset", "count"}) OptionalExpr(fields, key, out);
  return out;
}

json PlanParser::Value(Fields& fields, const Doc& value) {
  json out = {{"dtype", "i64"}};
  std::optional<TypeRef> type = TypeRef{"", DType::kI64};
  if (const Doc* dtype = fields.Find("dtype")) {
    type = ReadTypeRef(*dtype, fields.PathOf("dtype"), model_, problems_);
    out["dtype"] = dtype->text;
  }
  const bool real = type && IsFloatRef(*type, model_) && value.kind == Doc::Kind::kScalar &&
                    ParseReal(value.text).has_value();
  out["value"] = real ? json(value.text) : ExprText(value, fields.PathOf("value"));
  return out;
}

json PlanParser::Buffer(Fields& fields, const Doc& name) {
  json out = {{"buffer", BufferName(name, fields.PathOf("buffer"))}, {"offset", "0"}};
  for (const char* key : {"offset", "member"}) OptionalExpr(fields, key, out);
  return out;
}

json PlanParser::Argument(const Doc& doc, const std::string& path) {
  if (doc.kind == Doc::Kind::kNull) return nullptr;
  if (doc.kind == Doc::Kind::kScalar) {
    const std::string& name = doc.text;
    const DimDecl* dim = model_.FindDim(name);
    if (model_.FindArg(name) != nullptr || workspace_.contains(name) ||
        (dim != nullptr && !dim->is_list)) {
      return name;
    }
    std::set<std::string> known = workspace_;
    for (const ArgDecl& arg : model_.args) known.insert(arg.name);
    problems_.Add(doc, path,
                  fmt::format("{}: '{}' is no argument, workspace or dim; {}; a computed value is "
                              "written {{value: EXPRESSION, dtype: i32}}",
                              path, name.substr(0, 80), Suggest(name, known)));
    return nullptr;
  }
  Fields fields(doc, path, problems_);
  if (!fields.valid()) return nullptr;
  json out;
  if (const Doc* value = fields.Find("value")) {
    out = Value(fields, *value);
  } else if (const Doc* structure = fields.Find("struct")) {
    out = {{"struct", Struct(*structure, fields.PathOf("struct"))}};
  } else if (const Doc* map = fields.Find("tensor_map")) {
    out = {{"tensor_map", TensorMap(*map, fields.PathOf("tensor_map"))}};
  } else if (const Doc* buffer =
                 fields.Need("buffer",
                             "an argument is a name, {value, dtype}, {buffer, offset}, "
                             "{struct} or {tensor_map}")) {
    out = Buffer(fields, *buffer);
  }
  fields.Finish();
  return out;
}

json PlanParser::StructField(const Doc& doc, const std::string& path, std::int64_t size,
                             std::vector<std::pair<std::int64_t, std::int64_t>>& taken) {
  Fields fields(doc, path, problems_);
  if (!fields.valid()) return json::object();
  json out;
  std::int64_t bytes = 8;
  if (const Doc* arg = fields.Find("arg")) {
    const std::string name = ReadText(*arg, fields.PathOf("arg"), problems_).value_or("");
    const ArgDecl* found = model_.FindArg(name);
    if (found == nullptr) {
      problems_.Add(*arg, path, fmt::format("{}: there is no argument '{}'", path, name));
    } else if (found->role == Role::kScalar && found->type.family.empty()) {
      bytes = SizeOf(found->type.dtype);
    } else if (found->in_struct) {
      bytes = 0;  // As many addresses as it has members; checked when bound.
    }
    out = {{"arg", name}};
  } else if (const Doc* buffer = fields.Find("buffer")) {
    out = Buffer(fields, *buffer);
  } else if (const Doc* value = fields.Need("value", "a field is an arg, a buffer or a value")) {
    out = Value(fields, *value);
    const auto dtype = ParseDType(out.value("dtype", "i64"));
    bytes = dtype ? SizeOf(*dtype) : 1;
  }
  if (const Doc* at = fields.Need("at", "say at which byte the field stands")) {
    const auto offset = ReadInteger(*at, fields.PathOf("at"), problems_).value_or(0);
    out["at"] = offset;
    if (offset < 0 || offset > size || bytes > size - offset) {
      problems_.Add(*at, path,
                    fmt::format("{}: {} bytes at {} do not fit a struct of {} bytes", path, bytes,
                                offset, size));
    }
    for (const auto& [other, other_bytes] : taken) {
      if (offset < other + other_bytes && other < offset + bytes) {
        problems_.Add(*at, path, fmt::format("{}: overlaps the field at {}", path, other));
      }
    }
    taken.emplace_back(offset, bytes);
  }
  fields.Finish();
  return out;
}

json PlanParser::Struct(const Doc& doc, const std::string& path) {
  Fields fields(doc, path, problems_);
  json out = {{"size", 0}, {"align", 8}, {"fields", json::array()}};
  if (!fields.valid()) return out;
  constexpr std::int64_t kMaxBytes = 4096;
  std::int64_t size = 0;
  if (const Doc* found = fields.Need("size", "give the struct's size in bytes")) {
    size = ReadInteger(*found, fields.PathOf("size"), problems_).value_or(8);
    if (size < 1 || size > kMaxBytes) {
      problems_.Add(*found, path,
                    fmt::format("{}: a struct has between 1 and {} bytes", path, kMaxBytes));
      size = 8;
    }
    out["size"] = size;
  }
  if (const Doc* align = fields.Find("align")) {
    const auto value = ReadInteger(*align, fields.PathOf("align"), problems_).value_or(8);
    if (value < 1 || value > 256 || (value & (value - 1)) != 0 || size % value != 0) {
      problems_.Add(*align, path,
                    fmt::format("{}: the alignment is a power of two that divides the size", path));
    }
    out["align"] = value;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  if (const Doc* list = fields.Need("fields", "list the fields with their offsets")) {
    const auto* items = ReadList(*list, fields.PathOf("fields"), problems_);
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      out["fields"].push_back(
          StructField((*items)[i], fmt::format("{}[{}]", fields.PathOf("fields"), i), size, taken));
    }
  }
  fields.Finish();
  return out;
}

json PlanParser::TensorMap(const Doc& doc, const std::string& path) {
  Fields fields(doc, path, problems_);
  json out = json::object();
  if (!fields.valid()) return out;
  if (const Doc* buffer = fields.Need("buffer", "name the buffer that the map describes")) {
    out = Buffer(fields, *buffer);
  }
  for (const char* key : {"shape", "strides", "box", "element_strides"}) {
    const bool required = std::string_view(key) == "shape" || std::string_view(key) == "box";
    const Doc* found =
        required ? fields.Need(key, "list one to five extents, innermost first") : fields.Find(key);
    if (found == nullptr) continue;
    const auto exprs =
        ReadExprs(*found, fields.PathOf(key), names_, "dims and tunables", problems_);
    json texts = json::array();
    for (const Expr& expr : exprs.value_or(std::vector<Expr>())) texts.push_back(expr.text());
    if (exprs && (exprs->empty() || exprs->size() > 5)) {
      problems_.Add(*found, fields.PathOf(key), "a tensor map has one to five dimensions");
    }
    out[key] = std::move(texts);
  }
  const std::pair<const char*, std::set<std::string>> choices[] = {
      {"interleave", {"none", "16B", "32B"}},
      {"swizzle", {"none", "32B", "64B", "128B"}},
      {"l2_promotion", {"none", "64B", "128B", "256B"}},
      {"oob_fill", {"zero", "nan"}}};
  for (const auto& [key, values] : choices) {
    out[key] = std::string_view(key) == "oob_fill" ? "zero" : "none";
    if (const Doc* found = fields.Find(key)) {
      out[key] = ReadChoice(*found, fields.PathOf(key), values, problems_).value_or("none");
    }
  }
  fields.Finish();
  return out;
}

}  // namespace

json ParseLaunches(const Doc& doc, const std::string& path, const TaskModel& model,
                   const KernelSpec& kernel, Problems& problems) {
  return PlanParser(model, kernel, problems).Steps(doc, path, 0);
}

json ParseWorkspace(const Doc& doc, const std::string& path, const TaskModel& model,
                    const KernelSpec& kernel, Problems& problems) {
  json out = json::array();
  const auto* items = ReadList(doc, path, problems);
  if (items == nullptr) return out;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Doc& item = (*items)[i];
    const std::string where = fmt::format("{}[{}]", path, i);
    const Doc* canonical_name = item.Find("name");
    const bool canonical = canonical_name != nullptr && item.entries.size() > 1;
    if (!canonical && (item.kind != Doc::Kind::kMap || item.entries.size() != 1)) {
      problems.Add(item, where,
                   fmt::format("{} is one name with its fields, such as '- partial: "
                               "{{dtype: f32, shape: [rows]}}'",
                               where));
      continue;
    }
    const std::string name = canonical ? canonical_name->text : item.entries.front().key;
    const Doc& body = canonical ? item : item.entries.front().value;
    if (!IsIdentifier(name) || model.FindArg(name) != nullptr || !seen.insert(name).second ||
        model.FindDim(name) != nullptr) {
      problems.Add(item, where,
                   fmt::format("{}: '{}' cannot name a workspace; choose a name that "
                               "nothing else has",
                               where, name.substr(0, 80)));
      continue;
    }
    Fields fields(body, where, problems);
    if (!fields.valid()) continue;
    if (canonical) fields.Find("name");
    json entry = {{"name", name}, {"dtype", "u8"}, {"shape", json::array()}, {"init", "undefined"}};
    if (const Doc* dtype = fields.Need("dtype", "one of f32, i32, u8, ...")) {
      if (ReadTypeRef(*dtype, fields.PathOf("dtype"), model, problems))
        entry["dtype"] = dtype->text;
    }
    if (const Doc* shape = fields.Need("shape", "give the extents, such as 'shape: [rows]'")) {
      const auto exprs = ReadExprs(*shape, fields.PathOf("shape"), PlanNames(model, kernel),
                                   "dims, tunables and target values", problems);
      for (const Expr& expr : exprs.value_or(std::vector<Expr>())) {
        entry["shape"].push_back(expr.text());
      }
    }
    if (const Doc* init = fields.Find("init")) {
      entry["init"] = ReadChoice(*init, fields.PathOf("init"), {"undefined", "zero"}, problems)
                          .value_or("undefined");
    }
    fields.Finish();
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace fettle
