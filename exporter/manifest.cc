// SPDX-License-Identifier: Apache-2.0
#include "exporter/manifest.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::uint64_t kBindSeed = 1;

const FileFacts& Facts(const std::map<std::string, FileFacts>& files, const std::string& path) {
  const auto found = files.find(path);
  FETTLE_CHECK(found != files.end());
  return found->second;
}

json FileEntry(const std::map<std::string, FileFacts>& files, const std::string& path) {
  const FileFacts& facts = Facts(files, path);
  return {{"path", path}, {"sha256", facts.sha256}, {"bytes", facts.bytes}};
}

double Number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string ObjectPath(const std::string& target_name, const std::string& id, std::size_t index) {
  const absl::StatusOr<Target> target = FindTarget(target_name);
  const Vendor vendor = target.ok() ? target->vendor : Vendor::kCpu;
  if (vendor == Vendor::kNvidia)
    return fmt::format("objects/cuda/{}/{}-{}.cubin", target_name, id, index);
  if (vendor == Vendor::kAmd) return fmt::format("objects/hip/{}/{}-{}.co", target_name, id, index);
  return fmt::format("objects/{}/{}-{}.so", target_name, id, index);
}

json KernelEntry(const KernelSpec& kernel, const TunableValues& values, const std::string& folder,
                 const std::map<std::string, FileFacts>& files) {
  json headers = json::array();
  for (const auto& [name, text] : kernel.headers) {
    headers.push_back(FileEntry(files, folder + name));
  }
  json numbers = json::object();
  for (const auto& [name, value] : values) numbers[name] = value;
  return {{"source", FileEntry(files, folder + kernel.source_name)},
          {"headers", headers},
          {"dialect", kernel.dialect == Dialect::kHip ? "hip" : "cuda"},
          {"lanes", kernel.lanes},
          {"values", numbers},
          {"launches", kernel.launches.is_null() ? json::array() : kernel.launches},
          {"workspace", kernel.workspace.is_null() ? json::array() : kernel.workspace}};
}

// The envelope that was tested: `requires`, the dtype combinations, and for each plain dim the
// smallest and largest size among the task's own cases.
absl::StatusOr<json> GuardsEntry(const ProvenVariant& variant) {
  json requirements = json::array();
  for (const Expr& guard : variant.kernel.guards) requirements.push_back(guard.text());
  std::set<json> types;
  json dims = json::object();
  FETTLE_ASSIGN_OR_RETURN(const Target target, FindTarget(variant.provenance->target));
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    FETTLE_ASSIGN_OR_RETURN(const auto cases, variant.task->BindCases(set, kBindSeed, target));
    for (const BoundCase& bound_case : cases) {
      FETTLE_ASSIGN_OR_RETURN(const bool supported, AppliesTo(variant, bound_case));
      if (!supported) continue;
      json combination = json::object();
      for (const auto& [family, dtype] : bound_case.types) {
        combination[family] = std::string(DTypeName(dtype));
      }
      types.insert(combination);
      for (const BoundDim& dim : bound_case.dims) {
        if (dim.is_list || dim.values.empty()) continue;
        const std::int64_t value = dim.values[0];
        json& range = dims[dim.name];
        if (range.is_null()) range = {{"min", value}, {"max", value}};
        range["min"] = std::min(range["min"].get<std::int64_t>(), value);
        range["max"] = std::max(range["max"].get<std::int64_t>(), value);
      }
    }
  }
  return json{{"requires", requirements}, {"types", json(types)}, {"dims", dims}};
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
          {"ratio_declared", Number(variant, "ratio_declared")},
          {"ratio_tuned", Number(variant, "ratio_tuned")},
          {"roofline_fraction", Number(variant, "roofline_fraction")},
          {"cases", cases}};
}

absl::StatusOr<json> VariantEntry(const ProvenVariant& variant,
                                  const std::map<std::string, FileFacts>& files) {
  const VariantProvenance& provenance = *variant.provenance;
  FETTLE_ASSIGN_OR_RETURN(const VariantPaths paths, PathsOf(variant));
  FETTLE_ASSIGN_OR_RETURN(json guards, GuardsEntry(variant));
  json builds = json::array();
  for (std::size_t i = 0; i < provenance.builds.size(); ++i) {
    const ProvenanceBuild& build = provenance.builds[i];
    builds.push_back({{"target", build.target},
                      {"status", build.status},
                      {"key", build.key},
                      {"entries", build.entries},
                      {"symbols", build.symbols},
                      {"compiler", build.compiler},
                      {"object", FileEntry(files, paths.objects[i])},
                      {"facts", build.facts.is_object() ? build.facts : json::object()}});
  }
  const json device = provenance.document.value("device", json::object());
  return json{{"id", provenance.id},
              {"target", provenance.target},
              {"device", device.is_object() ? Text(device, "model") : ""},
              {"status", provenance.status},
              {"kernel", KernelEntry(variant.kernel, variant.values,
                                     fmt::format("sources/{}/", provenance.id), files)},
              {"guards", std::move(guards)},
              {"builds", std::move(builds)},
              {"performance", PerformanceEntry(provenance)},
              {"evidence", FileEntry(files, paths.evidence)}};
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

absl::StatusOr<VariantPaths> PathsOf(const ProvenVariant& variant) {
  const std::string& id = variant.provenance->id;
  VariantPaths paths;
  const std::string folder = fmt::format("sources/{}/", id);
  paths.source = folder + variant.kernel.source_name;
  for (const auto& [name, text] : variant.kernel.headers) {
    paths.headers.emplace_back(folder + name, text);
  }
  paths.evidence = fmt::format("evidence/{}.json", id);
  for (std::size_t i = 0; i < variant.provenance->builds.size(); ++i) {
    paths.objects.push_back(ObjectPath(variant.provenance->builds[i].target, id, i));
  }
  bool plain = IsPlainPath(paths.source);
  for (const auto& [path, text] : paths.headers) plain = plain && IsPlainPath(path);
  for (const std::string& path : paths.objects) plain = plain && IsPlainPath(path);
  if (!plain) {
    return absl::InvalidArgumentError(fmt::format(
        "export variant {}: the name of one of its source files or targets leaves the folder", id));
  }
  return paths;
}

absl::StatusOr<json> MakeManifest(const std::vector<ProvenVariant>& variants,
                                  const std::map<std::string, FileFacts>& files) {
  const Task& task = *variants.front().task;
  json task_files = json::array();
  for (const auto& [path, text] : task.files())
    task_files.push_back(FileEntry(files, "task/" + path));
  const Task::ReferenceSpec& reference = task.reference();
  json entries = json::array();
  for (const ProvenVariant& variant : variants) {
    FETTLE_ASSIGN_OR_RETURN(json entry, VariantEntry(variant, files));
    entries.push_back(std::move(entry));
  }
  return json{{"format", 1},
              {"tool", {{"name", "fettle"}, {"version", FETTLE_VERSION}}},
              {"op",
               {{"name", task.name()},
                {"summary", task.summary()},
                {"license", task.license()},
                {"task_digest", task.digest()},
                {"task", task_files},
                {"reference",
                 {{"kind", reference.kind},
                  {"path", reference.source.empty() ? "" : "task/" + reference.source},
                  {"function", reference.function}}}}},
              {"variants", std::move(entries)},
              {"fallback",
               {{"kind", "baseline"},
                {"kernel", KernelEntry(task.baseline(), task.baseline().values, "task/", files)}}}};
}

std::string MakeReadme(const json& manifest) {
  const json& op = manifest.at("op");
  std::string text =
      fmt::format("# {}\n\n{}\n\nLicence: {}. Task digest: `{}`.\n\n", Text(op, "name"),
                  Text(op, "summary"), Text(op, "license"), Text(op, "task_digest"));
  text +=
      "| variant | target | device | values | speed-up | 95 % interval | of the roofline |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const json& variant : manifest.at("variants")) {
    const json& performance = variant.at("performance");
    std::string values;
    for (const auto& [name, value] : variant.at("kernel").at("values").items()) {
      values += fmt::format("{}{}={}", values.empty() ? "" : " ", name, value.dump(-1, ' ', false, kReplaceInvalid));
    }
    const double roofline = Number(performance, "roofline_fraction");
    text += fmt::format("| `{}` | {} | {} | {} | {:.3f} | {:.3f} to {:.3f} | {} |\n",
                        Text(variant, "id"), Text(variant, "target"), Text(variant, "device"),
                        values, Number(performance, "ratio"), Number(performance, "ratio_low"),
                        Number(performance, "ratio_high"),
                        roofline > 0 ? fmt::format("{:.0f} %", roofline * 100) : "not known");
  }
  text +=
      "\nSpeed-up is over the denominator recorded in the evidence. A variant holds for the "
      "shapes within its `guards` in manifest.json; everywhere else use the baseline.\n\n"
      "`fettle verify .` checks this folder; `fettle verify --rerun .` repeats verification and "
      "measurement on your device.\n";
  return text;
}

}  // namespace fettle
