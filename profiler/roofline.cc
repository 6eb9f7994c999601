// SPDX-License-Identifier: Apache-2.0
#include "profiler/roofline.h"

#include <algorithm>

namespace fettle {
namespace {

constexpr double kBeyondMemory = 1.05;
// An H200 multiplies zeros 15 % faster than random values (docs/results/h200_device.md).
constexpr double kBeyondCompute = 1.25;

Floor FloorFor(const BoundCase& bound_case, const Ceilings& ceilings, bool cold) {
  return FloorOf(bound_case.work_bytes, bound_case.work_flops, ceilings,
                 CeilingFlops(bound_case, ceilings), cold);
}

}  // namespace

double Floor::ns() const { return std::max(memory_ns, compute_ns); }

Floor FloorOf(double work_bytes, double work_flops, const Ceilings& ceilings, double flops_per_s,
              bool cold) {
  const double bytes_per_s =
      cold ? ceilings.bytes_per_s : std::max(ceilings.bytes_per_s, ceilings.cached_bytes_per_s);
  Floor floor;
  if (bytes_per_s > 0) floor.memory_ns = 1e9 * work_bytes / bytes_per_s;
  if (flops_per_s > 0) floor.compute_ns = 1e9 * work_flops / flops_per_s;
  return floor;
}

double CeilingFlops(const BoundCase& bound_case, const Ceilings& ceilings) {
  bool floating = false, narrow = false;
  for (const BoundTensor& tensor : bound_case.tensors) {
    floating = floating || IsFloat(tensor.dtype);
    narrow = narrow || tensor.dtype == DType::kI8 ||
             (IsFloat(tensor.dtype) && SizeOf(tensor.dtype) == 1);
  }
  if (narrow) return ceilings.flops8_per_s;
  return floating ? ceilings.flops_per_s : 0;
}

void ApplyRoofline(const BoundCase& bound_case, const Ceilings& ceilings, bool cold,
                   CaseMeasurement& measurement) {
  const double seconds = measurement.b_median_ns * 1e-9;
  if (seconds <= 0) return;
  measurement.bytes_per_s = bound_case.work_bytes / seconds;
  measurement.flops_per_s = bound_case.work_flops / seconds;
  if (bound_case.work_is_estimate) return;
  Floor floor = FloorFor(bound_case, ceilings, cold);
  // A clock above the one that the ceiling was measured at is no sign of skipped work.
  floor.compute_ns = std::min(floor.compute_ns, measurement.b_median_ns);
  measurement.floor_ns = floor.ns();
  measurement.roofline_fraction = measurement.floor_ns / measurement.b_median_ns;
}

bool BeatsFloor(const BoundCase& bound_case, const Ceilings& ceilings, bool cold,
                double median_ns) {
  if (bound_case.work_is_estimate || median_ns <= 0) return false;
  const Floor floor = FloorFor(bound_case, ceilings, cold);
  return floor.memory_ns > kBeyondMemory * median_ns ||
         floor.compute_ns > kBeyondCompute * median_ns;
}

}  // namespace fettle
