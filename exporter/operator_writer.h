// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "core/task.h"
#include "exporter/bundle_model.h"
#include "exporter/operator_view.h"
#include "exporter/plan_cpp.h"

namespace fettle {

// Writes the typed operator header, part by part in the order of the methods; each part has a file
// of its own: operator_types.cc, operator_call.cc, operator_contract.cc, operator_kernels.cc,
// operator_tables.cc, operator_dispatch.cc, operator_spec.cc.
class OperatorWriter {
 public:
  explicit OperatorWriter(const BundleModel& bundle)
      : bundle_(bundle), task_(*bundle.task), model_(bundle.task->model()), view_(ViewOf(bundle)) {}

  absl::StatusOr<std::string> Write();

 private:
  std::map<std::string, std::string> NamesFor(const BundleKernel* kernel,
                                              const std::string& target) const;
  std::string TypeOf(const ArgDecl& arg) const;
  std::string WantedDType(const TypeRef& type) const {
    return type.family.empty() ? CppDType(type.dtype) : fmt::format("c.types.{}", type.family);
  }
  void Structs();
  void Prologue();
  absl::Status CallStruct();
  void CallFields();
  absl::Status CallDims();
  absl::Status CallExtents();
  absl::Status Check();
  absl::Status Tensors();
  absl::Status Kernels();
  absl::Status ArrayVolumes();
  std::string VolumeTest(const Envelope& envelope) const;
  absl::Status Guard(std::size_t k);
  void Tables();
  std::string BuildRows();
  std::string SymbolsOf(const BundleBuild& build, const BuildSelector& selector) const;
  std::string EvidenceOf(const BundleBuild& build) const;
  void Select();
  void Keys();
  void Spec();
  void SpecTables();
  void SpecFunctions();

  // Adds a formatted line.
  template <class... A>
  void Line(fmt::format_string<A...> format, A&&... args) {
    out_ += fmt::format(format, std::forward<A>(args)...);
    out_ += '\n';
  }
  // The condition that a call is of the selector's types and specialized dims.
  std::string Selector(const BuildSelector& selector) const;
  // The target whose values a kernel's expressions use.
  std::string TargetOf(const BundleKernel& kernel) const;
  bool for_cpu() const;
  std::vector<const DimDecl*> Plain() const {
    std::vector<const DimDecl*> dims = view_.inputs;
    dims.insert(dims.end(), view_.computed.begin(), view_.computed.end());
    return dims;
  }

  const BundleModel& bundle_;
  const Task& task_;
  const TaskModel& model_;
  const OperatorView view_;
  std::vector<PlanCpp> plans_;
  std::string out_;
};

}  // namespace fettle
