// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "core/target.h"
#include "exporter/generated.h"
#include "exporter/operator_view.h"

namespace fettle {
namespace {

// The first of `names` that is a dim of the case; empty: none is.
std::string DimOf(const BoundCase& bound_case, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const BoundDim& dim : bound_case.dims) {
      if (!dim.is_list && dim.name == name) return std::to_string(dim.values.front());
    }
  }
  return "";
}

// The part of a case's elements that is over its tolerance.
double WrongPart(const VerificationReport& report, const std::string& label) {
  std::int64_t wrong = 0, compared = 0;
  for (const CaseReport& entry : report.cases) {
    if (entry.case_label != label) continue;
    for (const OutputErrors& output : entry.outputs) {
      wrong += output.mismatches;
      compared += output.compared;
    }
  }
  return compared == 0 ? 0 : static_cast<double>(wrong) / static_cast<double>(compared);
}

// Of the device that measured it: one architecture comes in several sizes. 0 for the cpu target.
std::int64_t MultiprocessorsOf(const nlohmann::json& device, const Target& target) {
  if (target.vendor == Vendor::kCpu || !device.is_object()) return 0;
  const nlohmann::json cus =
      device.value(nlohmann::json::json_pointer("/target/cus"), nlohmann::json());
  return cus.is_number_integer() ? cus.get<std::int64_t>() : target.cus;
}

// A line for each case that was measured on a target.
std::string Rows(const BundleModel& model, std::size_t k, const std::string& target_name,
                 const nlohmann::json& device, const Measurement& measurement,
                 const VerificationReport& verification) {
  const absl::StatusOr<std::vector<BoundCase>> cases = OwnCases(*model.task, target_name);
  const absl::StatusOr<Target> target = FindTarget(target_name);
  if (!cases.ok() || !target.ok()) return "";
  std::string text;
  for (const CaseMeasurement& entry : measurement.cases) {
    const auto bound_case = std::find_if(cases->begin(), cases->end(), [&](const BoundCase& one) {
      return one.label == entry.case_label;
    });
    if (bound_case == cases->end()) continue;
    const double wrong = WrongPart(verification, entry.case_label);
    std::string dtype, out_dtype, dims;
    for (const BoundTensor& tensor : bound_case->tensors) {
      std::string& slot =
          tensor.role == Role::kOut || tensor.role == Role::kInOut ? out_dtype : dtype;
      if (slot.empty()) slot = std::string(DTypeName(tensor.dtype));
    }
    for (const BoundDim& dim : bound_case->dims) {
      if (!dim.is_list)
        dims += fmt::format("{}{}={}", dims.empty() ? "" : " ", dim.name, dim.values.front());
    }
    text += fmt::format(
        "{},{},{},{},{},,{},{},,,fettle,{},,{:.3f},{}:{},{:.4g},{:.3f},{:.3f},{}\n", target_name,
        MultiprocessorsOf(device, *target), DimOf(*bound_case, {"M", "m", "rows"}),
        DimOf(*bound_case, {"N", "n", "cols"}), DimOf(*bound_case, {"K", "k"}), dtype, out_dtype, k,
        entry.b_median_ns / 1000, model.task->name(), model.kernels[k].id, wrong,
        entry.flops_per_s / 1e12, entry.bytes_per_s / 1e9, dims);
  }
  return text;
}

}  // namespace

GeneratedFiles TunedCsv(const BundleModel& model) {
  std::string text =
      "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,"
      "kernelName,err_ratio,tflops,bw,"
      "dims\n";
  for (std::size_t k = 0; k + 1 < model.kernels.size(); ++k) {
    const VariantProvenance& provenance = *model.kernels[k].variant->provenance;
    text += Rows(model, k, provenance.target, provenance.document.value("device", nlohmann::json()),
                 provenance.measurement, provenance.verification);
    for (const BundleRun& run : model.runs) {
      if (run.variant != provenance.id || run.status != "run") continue;
      text += Rows(model, k, run.target, run.measurement.device, run.measurement, run.verification);
    }
  }
  return {{fmt::format("integrations/aiter_csv/{}.csv", CppIdentifier(model.task->name())), text}};
}

}  // namespace fettle
