// SPDX-License-Identifier: Apache-2.0
// Kernel blocks: a task's baseline, or a proposal.

#include <algorithm>

#include <fmt/format.h>

#include "core/task_parse.h"

namespace fettle {
namespace {

constexpr std::size_t kMaxTunables = 32, kMaxValues = 4096;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

void AddTunable(const std::string& name, const Doc& at, const Doc& values, const std::string& path,
                const TaskModel& model, KernelSpec& kernel, Problems& problems) {
  Tunable tunable;
  tunable.name = name;
  if (!IsIdentifier(name) || model.FindDim(name) != nullptr || model.FindType(name) != nullptr) {
    problems.Add(at, path,
                 fmt::format("'{}' cannot name a tunable: it must be a name that no dim or "
                             "type has",
                             name.substr(0, 80)));
    return;
  }
  const auto* items = ReadList(values, path, problems);
  if (items == nullptr) return;
  for (const Doc& item : *items) {
    const auto value = ReadInteger(item, path, problems);
    if (!value) continue;
    if (std::find(tunable.values.begin(), tunable.values.end(), *value) != tunable.values.end()) {
      problems.Add(item, path, fmt::format("{} lists {} twice", path, *value));
      continue;
    }
    tunable.values.push_back(*value);
  }
  if (items->empty() || items->size() > kMaxValues) {
    problems.Add(values, path, fmt::format("{} needs between 1 and {} values", path, kMaxValues));
    return;
  }
  kernel.tunables.push_back(std::move(tunable));
}

// `{BLOCK: [64, 128]}`, or a list of {name, values}, which keeps an order in JSON.
void ReadTunables(const Doc& doc, const std::string& path, const TaskModel& model,
                  KernelSpec& kernel, Problems& problems) {
  if (doc.kind == Doc::Kind::kList) {
    for (const Doc& item : doc.items) {
      Fields fields(item, path, problems);
      const Doc* name = fields.Need("name", "name the tunable");
      const Doc* values = fields.Need("values", "list its values");
      fields.Finish();
      if (name == nullptr || values == nullptr) continue;
      AddTunable(name->text, *name, *values, path + "." + name->text, model, kernel, problems);
    }
  } else {
    Fields fields(doc, path, problems);
    for (const DocEntry& entry : doc.entries) {
      Doc at;
      at.line = entry.line;
      at.column = entry.column;
      AddTunable(entry.key, at, entry.value, path + "." + entry.key, model, kernel, problems);
    }
  }
  if (kernel.tunables.size() > kMaxTunables) {
    problems.Add(doc, path, fmt::format("{} has more than {} entries", path, kMaxTunables));
  }
}

void ReadValues(const Doc* doc, const Doc& block, const std::string& path, KernelSpec& kernel,
                Problems& problems) {
  std::set<std::string> known;
  for (const Tunable& tunable : kernel.tunables) known.insert(tunable.name);
  if (doc != nullptr) {
    Fields fields(*doc, path, problems);
    for (const DocEntry& entry : doc->entries) {
      const std::string field = path + "." + entry.key;
      if (!known.contains(entry.key)) {
        problems.Add(
            entry.line, entry.column, field,
            fmt::format("there is no tunable '{}'; {}", entry.key, Suggest(entry.key, known)));
        continue;
      }
      if (const auto value = ReadInteger(entry.value, field, problems)) {
        kernel.values[entry.key] = *value;
      }
    }
  }
  for (const Tunable& tunable : kernel.tunables) {
    const auto found = kernel.values.find(tunable.name);
    const Doc& at = doc != nullptr ? *doc : block;
    if (found == kernel.values.end()) {
      problems.Add(at, path,
                   fmt::format("{} does not give '{}'; add one of its values", path, tunable.name));
    } else if (std::find(tunable.values.begin(), tunable.values.end(), found->second) ==
               tunable.values.end()) {
      problems.Add(at, path + "." + tunable.name,
                   fmt::format("{}.{}: {} is not among the tunable's values", path, tunable.name,
                               found->second));
    }
  }
}

void ReadInlineSource(Fields& fields, KernelSpec& kernel) {
  Problems& problems = fields.problems();
  kernel.source_name = "kernel.cu";
  if (const Doc* name = fields.Find("source_name")) {
    kernel.source_name = ReadText(*name, fields.PathOf("source_name"), problems).value_or("");
  }
  if (const Doc* source = fields.Need("source", "give the kernel's source text")) {
    kernel.source = ReadText(*source, fields.PathOf("source"), problems).value_or("");
  }
  const Doc* headers = fields.Find("headers");
  if (headers == nullptr) return;
  if (headers->kind == Doc::Kind::kMap) {
    for (const DocEntry& entry : headers->entries) {
      const auto text = ReadText(entry.value, fields.PathOf("headers"), problems);
      kernel.headers.emplace_back(entry.key, text.value_or(""));
    }
  } else if (const auto* items = ReadList(*headers, fields.PathOf("headers"), problems)) {
    for (const Doc& item : *items) {
      Fields inner(item, fields.PathOf("headers"), problems);
      const Doc* name = inner.Need("name", "name the header");
      const Doc* text = inner.Need("text", "give the header's text");
      inner.Finish();
      if (name != nullptr && text != nullptr) kernel.headers.emplace_back(name->text, text->text);
    }
  }
}

void ReadFileSource(Fields& fields, const TaskFiles& files, KernelSpec& kernel) {
  Problems& problems = fields.problems();
  if (const Doc* source =
          fields.Need("source", "name the kernel's file, such as 'source: kernel.cu'")) {
    if (const auto name = ReadFileName(*source, fields.PathOf("source"), files, problems)) {
      kernel.source_name = *name;
      kernel.source = files.at(*name);
    }
  }
  const Doc* more = fields.Find("files");
  if (more == nullptr) return;
  const auto* items = ReadList(*more, fields.PathOf("files"), problems);
  if (items == nullptr) return;
  for (const Doc& item : *items) {
    if (const auto name = ReadFileName(item, fields.PathOf("files"), files, problems)) {
      kernel.headers.emplace_back(*name, files.at(*name));
    }
  }
}

void ReadDialect(Fields& fields, KernelSpec& kernel) {
  Problems& problems = fields.problems();
  const std::string& name = kernel.source_name;
  if (const Doc* dialect = fields.Find("dialect")) {
    const auto text = ReadChoice(*dialect, fields.PathOf("dialect"), {"cuda", "hip"}, problems);
    kernel.dialect = text == "hip" ? Dialect::kHip : Dialect::kCuda;
  } else if (EndsWith(name, ".hip") || EndsWith(name, ".hip.cpp")) {
    kernel.dialect = Dialect::kHip;
  } else if (!EndsWith(name, ".cu") && !EndsWith(name, ".cuh") && !name.empty()) {
    problems.Add(
        fields.doc(), fields.PathOf("dialect"),
        fmt::format("the dialect of '{}' is not clear from its name; add 'dialect: cuda' or "
                    "'dialect: hip'",
                    name.substr(0, 200)));
  }
  kernel.lanes = kernel.dialect == Dialect::kCuda ? 32 : 0;
  if (const Doc* lanes = fields.Find("lanes")) {
    const auto text = ReadChoice(*lanes, fields.PathOf("lanes"), {"32", "64", "any"}, problems);
    kernel.lanes = text == "32" ? 32 : text == "64" ? 64 : 0;
  }
}

}  // namespace

KernelSpec ParseKernelBlock(const Doc& doc, const std::string& path, const TaskModel& model,
                            const TaskFiles& files, bool inline_source, Problems& problems) {
  KernelSpec kernel;
  kernel.launches = nlohmann::json::array();
  kernel.workspace = nlohmann::json::array();
  Fields fields(doc, path, problems);
  if (!fields.valid()) return kernel;
  if (inline_source) {
    ReadInlineSource(fields, kernel);
  } else {
    ReadFileSource(fields, files, kernel);
  }
  ReadDialect(fields, kernel);
  if (const Doc* tunables = fields.Find("tunables")) {
    ReadTunables(*tunables, fields.PathOf("tunables"), model, kernel, problems);
  }
  ReadValues(fields.Find("values"), doc, fields.PathOf("values"), kernel, problems);
  if (const Doc* constraints = fields.Find("constraints")) {
    auto exprs = ReadExprs(*constraints, fields.PathOf("constraints"), PlanNames(model, kernel),
                           "tunables, target values and dims", problems);
    if (exprs) kernel.constraints = *std::move(exprs);
  }
  if (const Doc* guards = fields.Find("requires")) {
    auto exprs =
        ReadExprs(*guards, fields.PathOf("requires"), DimAndSizeNames(model), "dims", problems);
    if (exprs) kernel.guards = *std::move(exprs);
  }
  if (const Doc* workspace = fields.Find("workspace")) {
    kernel.workspace =
        ParseWorkspace(*workspace, fields.PathOf("workspace"), model, kernel, problems);
  }
  if (const Doc* launches = fields.Need("launches", "describe the steps of one call")) {
    kernel.launches = ParseLaunches(*launches, fields.PathOf("launches"), model, kernel, problems);
  }
  fields.Finish();
  return kernel;
}

}  // namespace fettle
