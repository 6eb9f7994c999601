// SPDX-License-Identifier: Apache-2.0
#include "exporter/manifest.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/bound_json.h"
#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task_model.h"
#include "core/text.h"
#include "exporter/operator_view.h"

namespace fettle {
namespace {

using nlohmann::json;
using Facts = std::map<std::string, FileFacts>;

// What a variant's buffers were aligned to where the task says nothing.
constexpr std::int64_t kTestedAlign = 256;

json FileEntry(const Facts& files, const std::string& path) {
  const auto found = files.find(path);
  FETTLE_CHECK(found != files.end());
  return {{"path", path}, {"sha256", found->second.sha256}, {"bytes", found->second.bytes}};
}

json TypesEntry(const std::map<std::string, DType>& types) {
  json out = json::object();
  for (const auto& [family, dtype] : types) out[family] = std::string(DTypeName(dtype));
  return out;
}

std::string SourceFolder(const BundleKernel& kernel) { return fmt::format("src/{}/", kernel.id); }

json KernelEntry(const BundleKernel& kernel, const Facts& files) {
  const std::string folder = SourceFolder(kernel);
  json headers = json::array();
  for (const auto& [name, text] : kernel.kernel.headers)
    headers.push_back(FileEntry(files, folder + name));
  json numbers = json::object();
  for (const auto& [name, value] : kernel.values) numbers[name] = value;
  return {
      {"source", FileEntry(files, folder + kernel.kernel.source_name)},
      {"headers", headers},
      {"dialect", std::string(DialectName(kernel.kernel.dialect))},
      {"lanes", kernel.kernel.lanes},
      {"values", numbers},
      {"launches", kernel.kernel.launches.is_null() ? json::array() : kernel.kernel.launches},
      {"workspace", kernel.kernel.workspace.is_null() ? json::array() : kernel.kernel.workspace}};
}

json BuildEntries(const BundleModel& model, const std::string& kernel, const Facts& files) {
  json entries = json::array();
  for (const BundleBuild& build : model.builds) {
    if (build.kernel != kernel) continue;
    json serves = json::array();
    for (const BuildSelector& selector : build.selectors) {
      json special = json::object();
      for (const auto& [name, value] : selector.special) special[name] = value;
      serves.push_back({{"types", TypesEntry(selector.types)}, {"special", special}});
    }
    const absl::StatusOr<Target> target = FindTarget(build.target);
    json features = json::object();
    // Objects are built without sramecc and xnack suffixes: they run on either setting.
    if (target.ok() && target->vendor == Vendor::kAmd)
      features = {{"sramecc", "any"}, {"xnack", "any"}};
    entries.push_back({{"target", build.target},
                       {"features", features},
                       {"status", build.status},
                       {"key", build.key},
                       {"entries", build.entries},
                       {"symbols", build.symbols},
                       {"compiler", build.compiler},
                       {"machine", build.machine},
                       {"serves", serves},
                       {"object", FileEntry(files, build.path)},
                       {"facts", build.facts}});
  }
  return entries;
}

json RangeEntry(std::int64_t min, std::int64_t max, std::int64_t multiple_of) {
  json out = {{"min", min}, {"max", max}};
  if (multiple_of > 1) out["multiple_of"] = multiple_of;
  return out;
}

json GuardsEntry(const BundleModel& model, const BundleKernel& kernel) {
  json out = {{"requires", json::array()},
              {"constraints", json::array()},
              {"envelopes", json::array()},
              {"pointer_align", json::object()},
              {"aliasing", "none"}};
  for (const Expr& expr : kernel.kernel.guards) out["requires"].push_back(expr.text());
  for (const Expr& expr : kernel.kernel.constraints) out["constraints"].push_back(expr.text());
  for (const Envelope& envelope : kernel.envelopes) {
    json dims = json::object(), special = json::object(), scalars = json::object();
    for (const auto& [name, range] : envelope.dims)
      dims[name] = RangeEntry(range.min, range.max, range.multiple_of);
    for (const auto& [name, value] : envelope.selector.special) special[name] = value;
    for (const auto& [name, range] : envelope.scalars)
      scalars[name] = {{"min", range.first}, {"max", range.second}};
    json entry = {{"types", TypesEntry(envelope.selector.types)},
                  {"special", special},
                  {"dims", dims},
                  {"elements", envelope.elements},
                  {"scalars", scalars}};
    if (!envelope.member_elements.empty()) entry["member_elements"] = envelope.member_elements;
    out["envelopes"].push_back(std::move(entry));
  }
  for (const ArgDecl& arg : model.task->model().args) {
    if (arg.role == Role::kScalar || arg.role == Role::kNone || arg.each != nullptr) continue;
    out["pointer_align"][arg.name] = arg.align > 0 ? arg.align : kTestedAlign;
  }
  return out;
}

json PerformanceEntry(const VariantProvenance& provenance) {
  json cases = json::array();
  for (const CaseMeasurement& entry : provenance.measurement.cases) {
    cases.push_back({{"case", entry.case_label},
                     {"baseline_median_ns", entry.a_median_ns},
                     {"median_ns", entry.b_median_ns},
                     {"ratio", entry.ratio},
                     {"ratio_low", entry.ratio_low},
                     {"ratio_high", entry.ratio_high},
                     {"roofline_fraction", entry.roofline_fraction}});
  }
  const json& variant = provenance.document.at("variant");
  return {{"ratio", provenance.ratio},
          {"ratio_low", provenance.ratio_low},
          {"ratio_high", provenance.ratio_high},
          {"ratio_declared", NumberAt(variant, "ratio_declared")},
          {"ratio_tuned", NumberAt(variant, "ratio_tuned")},
          {"roofline_fraction", NumberAt(variant, "roofline_fraction")},
          {"cases", cases}};
}

json VariantEntry(const BundleModel& model, const BundleKernel& kernel, const Facts& files) {
  const VariantProvenance& provenance = *kernel.variant->provenance;
  const json device = provenance.document.value("device", json::object());
  json runs = json::array();
  for (const BundleRun& run : model.runs) {
    if (run.variant != kernel.id) continue;
    runs.push_back({{"target", run.target},
                    {"status", run.status},
                    {"device", run.device},
                    {"ratio", run.ratio},
                    {"ratio_low", run.ratio_low},
                    {"ratio_high", run.ratio_high},
                    {"evidence", FileEntry(files, std::string(kRunFolder) + run.path)}});
  }
  json entry = {{"id", kernel.id},
                {"target", provenance.target},
                {"device", device.is_object() ? TextAt(device, "model") : ""},
                {"status", provenance.status},
                {"kernel", KernelEntry(kernel, files)},
                {"guards", GuardsEntry(model, kernel)},
                {"builds", BuildEntries(model, kernel.id, files)},
                {"performance", PerformanceEntry(provenance)},
                {"evidence", FileEntry(files, fmt::format("evidence/{}.json", kernel.id))}};
  if (!runs.empty()) entry["runs"] = std::move(runs);
  return entry;
}

json AxisEntry(const DimDecl& dim, const OperatorView& view, const TaskModel& model) {
  const bool computed =
      std::find(view.computed.begin(), view.computed.end(), &dim) != view.computed.end();
  json out = {{"name", dim.name}, {"kind", dim.is_list ? "list" : computed ? "computed" : "input"}};
  if (dim.is_list) out["length"] = dim.length.text();
  if (dim.let.has_value()) {
    out["let"] = dim.let->text();
  } else if (!dim.in.empty()) {
    out["in"] = dim.in;
  } else {
    out["min"] = dim.min.text();
    out["max"] = dim.max.text();
    if (dim.multiple_of.text() != "1") out["multiple_of"] = dim.multiple_of.text();
  }
  if (dim.or_value.has_value()) out["or"] = dim.or_value->text();
  if (std::find(model.specialize.begin(), model.specialize.end(), dim.name) !=
      model.specialize.end()) {
    out["specialized"] = true;
  }
  return out;
}

json TensorEntry(const ArgDecl& arg) {
  const ArgDecl& each = arg.each != nullptr ? *arg.each : arg;
  json shape = json::array();
  for (const Expr& extent : each.shape) shape.push_back(extent.text());
  json out = {{"name", arg.name},
              {"role", std::string(RoleName(each.role))},
              {"dtype", each.type.family.empty() ? std::string(DTypeName(each.type.dtype))
                                                 : "$" + each.type.family},
              {"shape", shape},
              {"align", each.align > 0 ? each.align : kTestedAlign},
              {"array", arg.each != nullptr}};
  if (each.strides.has_value()) {
    out["strides"] = json::array();
    for (const Expr& stride : *each.strides) out["strides"].push_back(stride.text());
  }
  if (arg.each != nullptr) out["count"] = arg.count.text();
  if (!arg.optional_dim.empty()) out["optional"] = arg.optional_dim;
  return out;
}

json ToleranceEntry(const ToleranceDecl& decl) {
  switch (decl.kind) {
    case BoundTolerance::Kind::kRelative:
      return {
          {"output", decl.output}, {"model", "relative"}, {"rtol", decl.rtol}, {"atol", decl.atol}};
    case BoundTolerance::Kind::kExactBits:
      return {{"output", decl.output}, {"model", "exact_bits"}};
    case BoundTolerance::Kind::kExactValues:
      return {{"output", decl.output}, {"model", "exact_values"}};
    case BoundTolerance::Kind::kChecker:
      return {{"output", decl.output}, {"model", "checker"}};
    default:
      return {{"output", decl.output},
              {"model", "auto"},
              {"reduce", decl.reduce.text()},
              {"acc", std::string(DTypeName(decl.acc))},
              {"inner", decl.inner.has_value() ? std::string(DTypeName(*decl.inner)) : ""}};
  }
}

json OpEntry(const BundleModel& bundle, const Facts& files) {
  const Task& task = *bundle.task;
  const TaskModel& model = task.model();
  const OperatorView view = ViewOf(bundle);
  json task_files = json::array(), axes = json::array(), tensors = json::array(),
       scalars = json::array();
  json types = json::object(), valid = json::array(), tolerance = json::array(),
       unchecked = json::array();
  for (const auto& [path, text] : task.files())
    task_files.push_back(FileEntry(files, "task/" + path));
  for (const TypeFamily& family : model.types) {
    types[family.name] = json::array();
    for (const DType dtype : family.dtypes)
      types[family.name].push_back(std::string(DTypeName(dtype)));
  }
  for (const DimDecl& dim : model.dims) {
    axes.push_back(AxisEntry(dim, view, model));
    const bool given = std::find(view.lists.begin(), view.lists.end(), &dim) != view.lists.end();
    if (dim.is_list && !dim.let.has_value() && !given) unchecked.push_back(dim.name);
  }
  for (const ArgDecl& arg : model.args) {
    if (arg.role == Role::kScalar) {
      const std::string value = arg.value_kind == ArgDecl::Value::kPerCase ? "argument"
                                : arg.value_kind == ArgDecl::Value::kNumber
                                    ? fmt::format("{}", arg.number)
                                    : arg.value.text();
      scalars.push_back({{"name", arg.name},
                         {"dtype", arg.type.family.empty() ? std::string(DTypeName(arg.type.dtype))
                                                           : "$" + arg.type.family},
                         {"value", value}});
    } else if (arg.role != Role::kNone) {
      tensors.push_back(TensorEntry(arg));
      if (arg.role == Role::kIndex || (arg.each != nullptr && arg.each->role == Role::kIndex))
        unchecked.push_back(arg.name);
    }
  }
  for (const Expr& expr : model.valid) valid.push_back(expr.text());
  for (const ToleranceDecl& decl : model.tolerances) tolerance.push_back(ToleranceEntry(decl));
  const Task::ReferenceSpec& reference = task.reference();
  return {{"name", task.name()},
          {"summary", task.summary()},
          {"license", task.license()},
          {"task_digest", task.digest()},
          {"task", task_files},
          {"reference",
           {{"kind", reference.kind},
            {"path", reference.source.empty() ? "" : "task/" + reference.source},
            {"function", reference.function}}},
          {"types", types},
          {"axes", axes},
          {"tensors", tensors},
          {"scalars", scalars},
          {"valid", valid},
          {"determinism", model.contract.deterministic ? "bitwise" : "run_to_run"},
          {"nonfinite", model.contract.nonfinite ? "propagate" : "unspecified"},
          {"tolerance", tolerance},
          {"unchecked", unchecked}};
}

json SelectionEntry(const BundleModel& model) {
  json targets = json::array();
  const auto ids = [&](const std::vector<int>& kernels) {
    json out = json::array();
    for (const int k : kernels) out.push_back(model.kernels[static_cast<std::size_t>(k)].id);
    return out;
  };
  for (const TargetSelection& selection : model.selection) {
    json rows = json::array();
    for (const SelectionRow& row : selection.rows) {
      json dims = json::object();
      for (const auto& [name, range] : row.dims)
        dims[name] = RangeEntry(range.first, range.second, 1);
      rows.push_back({{"kind", row.kind == SelectionRow::Kind::kExact    ? "exact"
                               : row.kind == SelectionRow::Kind::kBucket ? "bucket"
                                                                         : "generic"},
                      {"types", TypesEntry(row.types)},
                      {"dims", dims},
                      {"order", ids(row.order)}});
    }
    targets.push_back({{"target", selection.target},
                       {"members", ids(selection.members)},
                       {"mean_regret", selection.mean_regret},
                       {"worst_regret", selection.worst_regret},
                       {"rows", rows}});
  }
  return {{"order", {"exact", "bucket", "generic", "fallback"}}, {"targets", targets}};
}

std::string Percent(double fraction) { return fmt::format("{:.0f} %", fraction * 100); }

std::string ValuesText(const json& values) {
  std::string text;
  for (const auto& [name, value] : values.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                        value.dump(-1, ' ', false, kReplaceInvalid));
  }
  return text;
}

}  // namespace

bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.size() > 1000) return false;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return std::none_of(path.begin(), path.end(),
                      [](unsigned char c) { return c == '\\' || c < 0x20 || c == 0x7F; });
}

absl::StatusOr<std::map<std::string, std::string>> SourceFiles(const BundleKernel& kernel) {
  std::map<std::string, std::string> files;
  const std::string folder = SourceFolder(kernel);
  files[folder + kernel.kernel.source_name] = kernel.kernel.source;
  for (const auto& [name, text] : kernel.kernel.headers) files[folder + name] = text;
  for (const auto& [path, text] : files) {
    if (!IsPlainPath(path)) {
      return absl::InvalidArgumentError(fmt::format(
          "export variant {}: the name of one of its source files leaves the folder", kernel.id));
    }
  }
  return files;
}

json MakeManifest(const BundleModel& model, const Facts& files) {
  json variants = json::array();
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant != nullptr) variants.push_back(VariantEntry(model, kernel, files));
  }
  json fallback_builds = BuildEntries(model, kBaselineId, files);
  return {{"format", kBundleFormat},
          {"tool", {{"name", "fettle"}, {"version", FETTLE_VERSION}}},
          {"bundle",
           {{"name", model.task->name()}, {"version", model.version}, {"digest", model.digest}}},
          {"op", OpEntry(model, files)},
          {"variants", std::move(variants)},
          {"selection", SelectionEntry(model)},
          {"fallback",
           {{"kind", fallback_builds.empty() ? "callback" : "baseline"},
            {"kernel", KernelEntry(model.kernels.back(), files)},
            {"builds", std::move(fallback_builds)}}},
          {"sources", FileEntry(files, "src/build.json")}};
}

json MakeBuildList(const BundleModel& model) {
  json builds = json::array();
  for (const BundleBuild& build : model.builds) {
    if (build.selectors.empty()) continue;
    const BundleKernel& kernel =
        model.kernels[static_cast<std::size_t>(model.KernelIndex(build.kernel))];
    json macros = json::array(), headers = json::array();
    for (const auto& [name, value] : build.macros) macros.push_back({name, value});
    for (const auto& [name, text] : kernel.kernel.headers)
      headers.push_back(SourceFolder(kernel) + name);
    builds.push_back({{"kernel", build.kernel},
                      {"target", build.target},
                      {"status", build.status},
                      {"key", build.key},
                      {"object", build.path},
                      {"sha256", build.sha256},
                      {"source", SourceFolder(kernel) + kernel.kernel.source_name},
                      {"headers", headers},
                      {"dialect", std::string(DialectName(kernel.kernel.dialect))},
                      {"lanes", kernel.kernel.lanes},
                      {"macros", macros},
                      {"entries", build.entries},
                      {"symbols", build.symbols},
                      {"options", json::array()},
                      {"compiler", build.compiler},
                      {"machine", build.machine},
                      {"facts", build.facts}});
  }
  return {{"format", 1}, {"builds", builds}};
}

std::string MakeReadme(const json& manifest) {
  const json& op = manifest.at("op");
  const json& bundle = manifest.at("bundle");
  const std::string name = TextAt(op, "name");
  std::string text = fmt::format(
      "# {} {}\n\n{}\n\nLicence: {}. Task digest: `{}`. Bundle digest: `{}`.\n\n## Variants\n\n"
      "| variant | target | device | values | speed-up | 95 % interval | of the roofline |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n",
      name, TextAt(bundle, "version"), TextAt(op, "summary"), TextAt(op, "license"),
      TextAt(op, "task_digest"), TextAt(bundle, "digest"));
  for (const json& variant : manifest.at("variants")) {
    const json& performance = variant.at("performance");
    const double roofline = NumberAt(performance, "roofline_fraction");
    text +=
        fmt::format("| `{}` | {} | {} | {} | {:.3f} | {:.3f} to {:.3f} | {} |\n",
                    TextAt(variant, "id"), TextAt(variant, "target"), TextAt(variant, "device"),
                    ValuesText(variant.at("kernel").at("values")), NumberAt(performance, "ratio"),
                    NumberAt(performance, "ratio_low"), NumberAt(performance, "ratio_high"),
                    roofline > 0 ? Percent(roofline) : "not known");
    for (const json& run : variant.value("runs", json::array())) {
      if (TextAt(run, "status") != "run") continue;
      text += fmt::format("| `{}` | {} | {} | as above | {:.3f} | {:.3f} to {:.3f} | rerun |\n",
                          TextAt(variant, "id"), TextAt(run, "target"), TextAt(run, "device"),
                          NumberAt(run, "ratio"), NumberAt(run, "ratio_low"),
                          NumberAt(run, "ratio_high"));
    }
  }
  text +=
      "\nSpeed-up is over the denominator recorded in the evidence. Losses are in the table of "
      "cases too.\n\n"
      "| variant | case | baseline | variant | speed-up |\n| --- | --- | --- | --- | --- |\n";
  for (const json& variant : manifest.at("variants")) {
    for (const json& entry : variant.at("performance").at("cases")) {
      text += fmt::format("| `{}` | {} | {:.1f} us | {:.1f} us | {:.3f} |\n", TextAt(variant, "id"),
                          TextAt(entry, "case"), NumberAt(entry, "baseline_median_ns") / 1000,
                          NumberAt(entry, "median_ns") / 1000, NumberAt(entry, "ratio"));
    }
  }
  text += "\n## Objects\n\n| kernel | target | status | compiler |\n| --- | --- | --- | --- |\n";
  std::set<std::string> lines;
  const auto add = [&](const std::string& id, const json& builds) {
    for (const json& build : builds) {
      lines.insert(fmt::format("| `{}` | {} | {} | {} |\n", id, TextAt(build, "target"),
                               TextAt(build, "status"), TextAt(build, "compiler")));
    }
  };
  for (const json& variant : manifest.at("variants"))
    add(TextAt(variant, "id"), variant.at("builds"));
  add(kBaselineId, manifest.at("fallback").at("builds"));
  for (const std::string& line : lines) text += line;
  text +=
      "\n`run`: verified and timed on that target. `emulated`: verified under an emulator. "
      "`compiled_only`: compiled, never run; used only after "
      "`allow_compiled_only(true)`.\n\n## Selection\n\n";
  for (const json& target : manifest.at("selection").at("targets")) {
    text += fmt::format(
        "- {}: {} variant{}, regret over the timed sizes {:.2f} % on average, {:.2f} % at most.\n",
        TextAt(target, "target"), target.at("members").size(),
        target.at("members").size() == 1 ? "" : "s", NumberAt(target, "mean_regret") * 100,
        NumberAt(target, "worst_regret") * 100);
  }
  const std::string identifier = CppIdentifier(name);
  text += fmt::format(
      "\nA variant serves only sizes within its `guards` in manifest.json; everything else goes to "
      "the baseline. "
      "`FETTLE_DISABLE={0}` (or `{0}:VARIANT`) turns it off.\n\n## Using it\n\n```cmake\n"
      "find_package(fettle_{1} {2} CONFIG REQUIRED)   # CMAKE_PREFIX_PATH holds this folder\n"
      "target_link_libraries(app PRIVATE fettle::{1})\n```\n\n```cpp\n#include "
      "<fettle_ops/{1}.hpp>\n"
      "fettle_ops::{1}::Operator op;\nop.prepare(fettle::Backend::kCuda);   // or kHip, kCpu\n"
      "op(fettle::cuda(stream), types, shape, args, workspace);\n```\n\n## Checking it\n\n"
      "`fettle verify .` checks this folder; `fettle verify --rebuild .` compiles the sources "
      "again; "
      "`fettle verify --rerun .` repeats verification and measurement on your device and adds the "
      "evidence.\n",
      name, identifier, TextAt(bundle, "version"));
  return text;
}

}  // namespace fettle
