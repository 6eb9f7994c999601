// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parsing of task files, internal to core: a Doc becomes a TaskModel, mistakes go to Problems.

#include <optional>
#include <set>
#include <string>

#include "core/doc.h"
#include "core/task_model.h"

namespace fettle {

// Parses and checks a whole task file. The model is usable when no problem was added.
TaskModel ParseTaskDoc(const Doc& doc, const TaskFiles& files, Problems& problems);

// The sections, in the order in which they build on each other.
void ParseTypes(const Doc& doc, TaskModel& model, Problems& problems);
void ParseDims(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);
void ParseArgs(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);
void ParseReference(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);
void ParseCases(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);
void ParseTolerances(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);
void ParseWork(const Doc& doc, TaskModel& model, Problems& problems);
void ParseContract(const Doc& doc, TaskModel& model, Problems& problems);
void ParseRivals(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems);

// A kernel block: `baseline` of a task file, or a proposal's JSON (`inline_source`: `source` is
// then the text itself). Mistakes go to `problems`.
KernelSpec ParseKernelBlock(const Doc& doc, const std::string& path, const TaskModel& model,
                            const TaskFiles& files, bool inline_source, Problems& problems);
// `launches` and `workspace` in canonical form. `kernel` has its tunables already.
nlohmann::json ParseLaunches(const Doc& doc, const std::string& path, const TaskModel& model,
                             const KernelSpec& kernel, Problems& problems);
nlohmann::json ParseWorkspace(const Doc& doc, const std::string& path, const TaskModel& model,
                              const KernelSpec& kernel, Problems& problems);

// Shared pieces.
std::optional<DType> ReadDType(const Doc& doc, const std::string& path, Problems& problems);
std::optional<TypeRef> ReadTypeRef(const Doc& doc, const std::string& path, const TaskModel& model,
                                   Problems& problems);
// A fill for an argument of `role` and type.
FillDecl ReadFill(const Doc& doc, const std::string& path, const ArgDecl& arg,
                  const TaskModel& model, const TaskFiles& files, Problems& problems);
// A path that names a file of the task.
std::optional<std::string> ReadFileName(const Doc& doc, const std::string& path,
                                        const TaskFiles& files, Problems& problems);
// Whether every dtype that the reference can stand for is a floating one.
bool IsFloatRef(const TypeRef& type, const TaskModel& model);
// Names of dims with "sizeof(T)" of the families.
std::set<std::string> DimNames(const TaskModel& model);
std::set<std::string> DimAndSizeNames(const TaskModel& model);
// Those, tunables and target.*.
std::set<std::string> PlanNames(const TaskModel& model, const KernelSpec& kernel);
std::set<std::string> TargetNames();

}  // namespace fettle
